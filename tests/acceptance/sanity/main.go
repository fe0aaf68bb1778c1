// csi-sanity from its library, with what its own command line has no switch for: ids that look like EC2's.
//
// The switches that csi-sanity has too have csi-sanity's names. Ends with 1 when a spec failed, with 2 for a usage error.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"k8s.io/klog/v2"
)

type outcome struct{ failed bool }

func (o *outcome) Fail() { o.failed = true }

func main() {
	config := sanity.NewTestConfig()
	flag.StringVar(&config.Address, "csi.endpoint", "", "CSI endpoint")
	flag.StringVar(&config.TargetPath, "csi.mountdir", config.TargetPath, "mount point for NodePublishVolume")
	flag.StringVar(&config.StagingPath, "csi.stagingdir", config.StagingPath, "mount point for NodeStageVolume")
	flag.StringVar(&config.SecretsFile, "csi.secrets", "", "YAML file with the secrets of each call")
	flag.Int64Var(&config.TestVolumeSize, "csi.testvolumesize", config.TestVolumeSize, "size of volumes, in bytes")
	flag.Int64Var(&config.TestVolumeExpandSize, "csi.testvolumeexpandsize", 0, "size to expand volumes to, in bytes")
	flag.StringVar(&config.TestVolumeAccessType, "csi.testvolumeaccesstype", config.TestVolumeAccessType, "mount or block")
	flag.StringVar(&config.TestVolumeParametersFile, "csi.testvolumeparameters", "", "YAML file of CreateVolume's parameters")
	flag.StringVar(&config.TestVolumeMutableParametersFile, "csi.testvolumemutableparameters", "", "YAML file of mutable parameters")
	flag.StringVar(&config.TestSnapshotParametersFile, "csi.testsnapshotparameters", "", "YAML file of CreateSnapshot's parameters")
	flag.BoolVar(&config.TestNodeVolumeAttachLimit, "csi.testnodevolumeattachlimit", false, "attach volumes up to the node's limit")
	flag.IntVar(&config.IdempotentCount, "idempotent-count", config.IdempotentCount, "how often idempotent calls are repeated")
	likeEC2 := flag.Bool("ec2-ids", false, "ids of volumes and nodes that do not exist have the form of EC2's")
	flag.Parse()
	if config.Address == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: csi-sanity -csi.endpoint=unix://SOCKET [SWITCHES]; -help lists them")
		os.Exit(2)
	}
	if *likeEC2 {
		config.IDGen = ec2IDs{}
	}

	klog.SetOutput(ginkgo.GinkgoWriter)
	var result outcome
	sanity.Test(&result, config)
	if result.failed {
		os.Exit(1)
	}
}

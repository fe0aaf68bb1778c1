// csi-sanity from its library, with what its own command line has no switch for: a deadline for each call, after which the
// call is repeated as a sidecar repeats it; ids that look like EC2's; a report of what was sent.
//
// The switches that csi-sanity has too have csi-sanity's names. Ends with 1 when a spec failed, with 2 for a usage error.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"
)

// options are the switches that csi-sanity lacks.
type options struct {
	callTimeout time.Duration
	callBound   time.Duration
	callReport  string
	ec2IDs      bool
}

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
	var own options
	flag.DurationVar(&own.callTimeout, "call-timeout", 0, "the deadline of each call; 0 for none")
	flag.DurationVar(&own.callBound, "call-bound", 5*time.Minute, "how long a call is repeated at most")
	flag.StringVar(&own.callReport, "call-report", "", "JSON file for what was called, how often, and how that ended")
	flag.BoolVar(&own.ec2IDs, "ec2-ids", false, "ids of volumes and nodes that do not exist have the form of EC2's")
	flag.Parse()
	if config.Address == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: csi-sanity -csi.endpoint=unix://SOCKET [SWITCHES]; -help lists them")
		os.Exit(2)
	}
	if own.ec2IDs {
		config.IDGen = ec2IDs{}
	}
	calls := newRepeater(own.callTimeout, own.callBound)
	config.DialOptions = append(config.DialOptions, grpc.WithUnaryInterceptor(calls.intercept))

	klog.SetOutput(ginkgo.GinkgoWriter)
	var result outcome
	sanity.Test(&result, config)
	if own.callReport != "" {
		if err := write(own.callReport, calls.report()); err != nil {
			fmt.Fprintln(os.Stderr, "the report of calls:", err)
			os.Exit(1)
		}
	}
	if result.failed {
		os.Exit(1)
	}
}

func write(path string, report map[string]tally) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Tests ebs-sim with the unmodified Go SDK: paging, filters, dry runs, waiters, error codes, idempotency, lifecycles.
//
// Reads what the simulator's env file exports. Prints the first difference from EC2, and then exits with 1.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

const (
	zone       = "us-west-2a"
	otherZone  = "us-west-2b"
	noVolume   = "vol-0123456789abcdef0"
	noSnapshot = "snap-0123456789abcdef0"
	noInstance = "i-0123456789abcdef0"
)

// run has what a scene needs to call one simulator.
type run struct {
	ctx      context.Context
	config   aws.Config
	ec2      *ec2.Client
	instance string
	other    string
	control  string
}

type scene struct {
	name string
	play func(*run)
}

func scenes() []scene {
	return []scene{
		{"a volume lives its life", (*run).volumeLife},
		{"tokens make creation idempotent", (*run).tokens},
		{"lists come in pages", (*run).pages},
		{"filters choose", (*run).filters},
		{"dry runs do nothing", (*run).dryRuns},
		{"errors of volumes have EC2's codes", (*run).volumeErrors},
		{"errors of attachments have EC2's codes", (*run).attachmentErrors},
		{"volumes grow and change", (*run).modifications},
		{"volumes are copied", (*run).copies},
		{"tags have rules", (*run).tags},
		{"snapshots are taken and restored", (*run).snapshots},
		{"fast restores are enabled by zone", (*run).fastRestores},
		{"locked snapshots stay", (*run).locks},
		{"instances come and go", (*run).instances},
		{"nobody gets in without the secret", (*run).credentials},
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	loaded, err := config.LoadDefaultConfig(ctx, config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }))
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot load the configuration:", err)
		os.Exit(2)
	}
	r := &run{
		ctx:      ctx,
		config:   loaded,
		ec2:      ec2.NewFromConfig(loaded),
		instance: os.Getenv("EBS_SIM_INSTANCE_ID"),
		other:    os.Getenv("EBS_SIM_SECOND_INSTANCE_ID"),
		control:  os.Getenv("EBS_SIM_CONTROL"),
	}
	for _, s := range scenes() {
		began := time.Now()
		if err := r.attempt(s); err != nil {
			fmt.Fprintf(os.Stderr, "FAILED %s: %v\n", s.name, err)
			os.Exit(1)
		}
		fmt.Printf("ok %s (%.1f s)\n", s.name, time.Since(began).Seconds())
	}
	fmt.Printf("aws-sdk-go-v2 %s: %d scenes\n", aws.SDKVersion, len(scenes()))
}

// attempt plays a scene. The first difference from EC2 ends it.
func (r *run) attempt(s scene) (err error) {
	defer func() {
		switch found := recover().(type) {
		case nil:
		case violated:
			err = errors.New(string(found))
		default:
			panic(found)
		}
	}()
	s.play(r)
	return nil
}

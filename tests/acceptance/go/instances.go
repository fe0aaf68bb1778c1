package main

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func (r *run) instances() {
	kept := r.volume()
	var id string
	r.times(func() {
		started := must(r.ec2.RunInstances(r.ctx, &ec2.RunInstancesInput{
			ImageId: aws.String("ami-0123456789abcdef0"), InstanceType: types.InstanceTypeC5Xlarge,
			MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
			Placement:         &types.Placement{AvailabilityZone: aws.String(zone)},
			TagSpecifications: tagged(types.ResourceTypeInstance, "Name", "go-guest"),
			BlockDeviceMappings: []types.BlockDeviceMapping{{
				DeviceName: aws.String("/dev/sdf"),
				Ebs:        &types.EbsBlockDevice{VolumeSize: aws.Int32(3), DeleteOnTermination: aws.Bool(true)},
			}},
		}))
		equal(len(started.Instances), 1, "instances")
		equal(started.Instances[0].State.Name, types.InstanceStateNamePending, "state of a new instance")
		id = *started.Instances[0].InstanceId
		r.waitRunning(id)
	}, map[string]int{"run_ms": 300})

	reservations := must(r.ec2.DescribeInstances(r.ctx, &ec2.DescribeInstancesInput{
		Filters: []types.Filter{filter("tag:Name", "go-guest")},
	})).Reservations
	equal(len(reservations), 1, "reservations")
	there := reservations[0].Instances[0]
	equal(*there.InstanceId, id, "the instance")
	own := ""
	for _, mapping := range there.BlockDeviceMappings {
		if *mapping.DeviceName == "/dev/sdf" {
			own = *mapping.Ebs.VolumeId
		}
	}
	equal(*r.theVolume(own).Size, int32(3), "size of the volume it was born with")
	must(r.ec2.AttachVolume(r.ctx, r.attachment(kept, id, "/dev/sdg")))
	r.waitInUse(kept)
	change := must(r.ec2.TerminateInstances(r.ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})).TerminatingInstances
	equal(change[0].PreviousState.Name, types.InstanceStateNameRunning, "the state before")
	r.waitTerminated(id)
	r.waitAvailable(kept)
	r.waitDeleted(own)

	kinds := must(r.ec2.DescribeInstanceTypes(r.ctx, &ec2.DescribeInstanceTypesInput{
		InstanceTypes: []types.InstanceType{types.InstanceTypeC5Xlarge},
	})).InstanceTypes
	equal(kinds[0].EbsInfo.NvmeSupport, types.EbsNvmeSupportRequired, "NVMe of c5.xlarge")
	absent, err := r.ec2.TerminateInstances(r.ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{noInstance}})
	refused(400, "InvalidInstanceID.NotFound", noInstance, absent, err)
}

package main

import (
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func (r *run) volumeErrors() {
	for _, c := range []struct {
		code, says string
		change     func(*ec2.CreateVolumeInput)
	}{
		{"InvalidZone.NotFound", "us-west-2z", func(i *ec2.CreateVolumeInput) { i.AvailabilityZone = aws.String("us-west-2z") }},
		{"MissingParameter", "", func(i *ec2.CreateVolumeInput) { i.AvailabilityZone = nil }},
		{"UnknownVolumeType", "", func(i *ec2.CreateVolumeInput) { i.VolumeType = "gp9" }},
		{"InvalidParameterValue", "", func(i *ec2.CreateVolumeInput) { i.Size = aws.Int32(0) }},
		{"InvalidParameterCombination", "parameter iops is not supported", func(i *ec2.CreateVolumeInput) {
			i.VolumeType, i.Iops = types.VolumeTypeGp2, aws.Int32(3000)
		}},
		{"InvalidParameterValue", "maximum is 256000", func(i *ec2.CreateVolumeInput) {
			i.VolumeType, i.Iops = types.VolumeTypeIo2, aws.Int32(math.MaxInt32)
		}},
		{"InvalidSnapshot.NotFound", "", func(i *ec2.CreateVolumeInput) { i.SnapshotId = aws.String(noSnapshot) }},
		{"InvalidParameterDependency", "", func(i *ec2.CreateVolumeInput) { i.KmsKeyId = aws.String("alias/k") }},
	} {
		input := &ec2.CreateVolumeInput{
			AvailabilityZone: aws.String(zone), Size: aws.Int32(4), VolumeType: types.VolumeTypeGp3,
		}
		c.change(input)
		answer, err := r.ec2.CreateVolume(r.ctx, input)
		refused(400, c.code, c.says, answer, err)
	}
	for id, code := range map[string]string{
		noVolume: "InvalidVolume.NotFound", "disk-1": "InvalidParameterValue", "vol-xyz": "InvalidVolumeID.Malformed",
	} {
		deleted, err := r.ec2.DeleteVolume(r.ctx, &ec2.DeleteVolumeInput{VolumeId: &id})
		refused(400, code, id, deleted, err)
		modified, err := r.ec2.ModifyVolume(r.ctx, &ec2.ModifyVolumeInput{VolumeId: &id, Size: aws.Int32(9)})
		refused(400, code, id, modified, err)
	}
}

func (r *run) attachmentErrors() {
	a, b := r.volume(), r.volume()
	far := r.volume(func(i *ec2.CreateVolumeInput) { i.AvailabilityZone = aws.String(otherZone) })
	detached, err := r.ec2.DetachVolume(r.ctx, &ec2.DetachVolumeInput{VolumeId: &a})
	refused(400, "IncorrectState", "", detached, err)
	must(r.ec2.AttachVolume(r.ctx, r.attachment(a, r.instance, "/dev/xvdbq")))
	for _, c := range []struct{ code, says, volume, instance, device string }{
		{"InvalidParameterValue", "already in use", b, r.instance, "/dev/xvdbq"},
		{"VolumeInUse", "", a, r.instance, "/dev/xvdbr"},
		{"InvalidVolume.ZoneMismatch", "", far, r.instance, "/dev/xvdbr"},
		{"InvalidVolume.NotFound", noVolume, noVolume, r.instance, "/dev/xvdbr"},
		{"InvalidInstanceID.NotFound", noInstance, b, noInstance, "/dev/xvdbr"},
		{"InvalidInstanceID.Malformed", "", b, "i-xyz", "/dev/xvdbr"},
		{"InvalidParameterValue", "", b, r.instance, "/dev/nvme1n1"},
	} {
		answer, err := r.ec2.AttachVolume(r.ctx, r.attachment(c.volume, c.instance, c.device))
		refused(400, c.code, c.says, answer, err)
	}
	detached, err = r.ec2.DetachVolume(r.ctx, &ec2.DetachVolumeInput{VolumeId: &a, InstanceId: &r.other})
	refused(400, "InvalidAttachment.NotFound", "", detached, err)
	described, err := r.ec2.DescribeInstances(r.ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{noInstance}})
	refused(400, "InvalidInstanceID.NotFound", noInstance, described, err)
	must(r.ec2.DetachVolume(r.ctx, &ec2.DetachVolumeInput{VolumeId: &a, Force: aws.Bool(true)}))
	r.waitAvailable(a)
}

func (r *run) credentials() {
	own := must(r.config.Credentials.Retrieve(r.ctx))
	for _, c := range []aws.Credentials{
		{AccessKeyID: own.AccessKeyID, SecretAccessKey: "wrong"},
		{AccessKeyID: "AKIAOTHER", SecretAccessKey: own.SecretAccessKey},
		{AccessKeyID: own.AccessKeyID, SecretAccessKey: own.SecretAccessKey, SessionToken: "stolen"},
	} {
		client := ec2.NewFromConfig(r.config, func(o *ec2.Options) {
			o.Credentials = credentials.NewStaticCredentialsProvider(c.AccessKeyID, c.SecretAccessKey, c.SessionToken)
		})
		answer, err := client.DescribeVolumes(r.ctx, &ec2.DescribeVolumesInput{})
		refused(401, "AuthFailure", "", answer, err)
	}
	answer, err := r.ec2.DescribeVpcs(r.ctx, &ec2.DescribeVpcsInput{})
	refused(400, "InvalidAction", "", answer, err)
}

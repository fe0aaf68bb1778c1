package main

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func (r *run) volumeLife() {
	var id string
	r.times(func() {
		made := must(r.ec2.CreateVolume(r.ctx, &ec2.CreateVolumeInput{
			AvailabilityZone: aws.String(zone), Size: aws.Int32(8), VolumeType: types.VolumeTypeGp3,
			Iops: aws.Int32(3500), Throughput: aws.Int32(200), Encrypted: aws.Bool(true),
			TagSpecifications: tagged(types.ResourceTypeVolume, "Name", "life", "odd", "<&> ä \"'"),
		}))
		equal(made.State, types.VolumeStateCreating, "state of a new volume")
		expect(time.Since(*made.CreateTime).Abs() < time.Minute, "CreateTime is not now: %v", made.CreateTime)
		id = *made.VolumeId
		answer, err := r.ec2.AttachVolume(r.ctx, r.attachment(id, r.instance, "/dev/xvdaa"))
		refused(400, "IncorrectState", "", answer, err)
		r.leap(20_000)
		r.waitAvailable(id)
	}, map[string]int{"create_ms": 20_000})
	there := r.theVolume(id)
	equal([]int32{*there.Size, *there.Iops, *there.Throughput}, []int32{8, 3500, 200}, "size, IOPS and throughput")
	expect(*there.Encrypted && *there.KmsKeyId != "", "it is not encrypted, or its key has no name")
	equal(tagMap(there.Tags), map[string]string{"Name": "life", "odd": "<&> ä \"'"}, "tags")

	r.times(func() {
		attached := must(r.ec2.AttachVolume(r.ctx, r.attachment(id, r.instance, "/dev/xvdaa")))
		equal(attached.State, types.VolumeAttachmentStateAttaching, "state of the attachment")
		r.waitInUse(id)
		until("attached", func() bool {
			return r.theVolume(id).Attachments[0].State == types.VolumeAttachmentStateAttached
		})
	}, map[string]int{"attach_ms": 400})
	answer, err := r.ec2.DeleteVolume(r.ctx, &ec2.DeleteVolumeInput{VolumeId: &id})
	refused(400, "VolumeInUse", "", answer, err)

	r.times(func() {
		detached := must(r.ec2.DetachVolume(r.ctx, &ec2.DetachVolumeInput{VolumeId: &id, InstanceId: &r.instance}))
		equal(detached.State, types.VolumeAttachmentStateDetaching, "state of the attachment")
		r.waitAvailable(id)
		must(r.ec2.DeleteVolume(r.ctx, &ec2.DeleteVolumeInput{VolumeId: &id}))
		r.waitDeleted(id)
	}, map[string]int{"detach_ms": 400, "delete_ms": 400})
	gone, err := r.ec2.DescribeVolumes(r.ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
	refused(400, "InvalidVolume.NotFound", id, gone, err)
}

func (r *run) attachment(volume, instance, device string) *ec2.AttachVolumeInput {
	return &ec2.AttachVolumeInput{VolumeId: &volume, InstanceId: &instance, Device: &device}
}

func (r *run) tokens() {
	ask := func(size int32) *ec2.CreateVolumeInput {
		return &ec2.CreateVolumeInput{
			AvailabilityZone: aws.String(zone), Size: &size, ClientToken: aws.String("go-token"),
		}
	}
	first := must(r.ec2.CreateVolume(r.ctx, ask(2)))
	equal(*must(r.ec2.CreateVolume(r.ctx, ask(2))).VolumeId, *first.VolumeId, "the same token and request")
	answer, err := r.ec2.CreateVolume(r.ctx, ask(3))
	refused(400, "IdempotentParameterMismatch", "", answer, err)
	r.waitAvailable(*first.VolumeId)
	must(r.ec2.DeleteVolume(r.ctx, &ec2.DeleteVolumeInput{VolumeId: first.VolumeId}))
	r.waitDeleted(*first.VolumeId)
	answer, err = r.ec2.CreateVolume(r.ctx, ask(2))
	refused(400, "IdempotentParameterMismatch", "", answer, err)
}

func (r *run) pages() {
	made := []string{}
	for n := range 12 {
		made = append(made, r.volume(func(i *ec2.CreateVolumeInput) {
			i.TagSpecifications = tagged(types.ResourceTypeVolume, "go-pages", "twelve", "n", fmt.Sprint(n))
		}))
	}
	ours := []types.Filter{filter("tag:go-pages", "twelve")}
	paginator := ec2.NewDescribeVolumesPaginator(r.ec2, &ec2.DescribeVolumesInput{Filters: ours},
		func(o *ec2.DescribeVolumesPaginatorOptions) { o.Limit = 5 })
	sizes, all := []int{}, []string{}
	for paginator.HasMorePages() {
		page := must(paginator.NextPage(r.ctx))
		sizes = append(sizes, len(page.Volumes))
		for _, volume := range page.Volumes {
			all = append(all, *volume.VolumeId)
		}
	}
	equal(sizes, []int{5, 5, 2}, "pages of five")
	equal(sorted(all), sorted(made), "volumes of all pages")

	answer, err := r.ec2.DescribeVolumes(r.ctx, &ec2.DescribeVolumesInput{MaxResults: aws.Int32(4)})
	refused(400, "InvalidParameterValue", "", answer, err)
	answer, err = r.ec2.DescribeVolumes(r.ctx, &ec2.DescribeVolumesInput{MaxResults: aws.Int32(5), VolumeIds: made[:1]})
	refused(400, "InvalidParameterCombination", "", answer, err)
	answer, err = r.ec2.DescribeVolumes(r.ctx, &ec2.DescribeVolumesInput{NextToken: aws.String("garbage")})
	refused(400, "InvalidParameterValue", "NextToken", answer, err)
}

func (r *run) filters() {
	named := func(name string) func(*ec2.CreateVolumeInput) {
		return func(i *ec2.CreateVolumeInput) {
			i.TagSpecifications = tagged(types.ResourceTypeVolume, "go-set", "filters", "name", name)
		}
	}
	a, b := r.volume(named("alpha-1")), r.volume(named("alpha-2"))
	c := r.volume(named("beta*1"), func(i *ec2.CreateVolumeInput) { i.AvailabilityZone = aws.String(otherZone) })
	ours := filter("tag:go-set", "filters")
	equal(r.found(ours), sorted([]string{a, b, c}), "by tag")
	equal(r.found(ours, filter("tag:name", "alpha-*")), sorted([]string{a, b}), "a star")
	equal(r.found(ours, filter("tag:name", "?lpha-1")), []string{a}, "a question mark")
	equal(r.found(ours, filter("tag:name", "beta\\*1", "alpha-2")), sorted([]string{b, c}), "an escaped star, or another")
	equal(r.found(ours, filter("availability-zone", otherZone)), []string{c}, "a zone")
	equal(r.found(filter("volume-id", a, noVolume)), []string{a}, "an id that does not exist, in a filter")
	many := make([]string, 200)
	for n := range many {
		many[n] = noVolume
	}
	many[199] = a
	equal(r.found(filter("volume-id", many...)), []string{a}, "200 values")
	for code, bad := range map[string]types.Filter{
		"FilterLimitExceeded":   filter("volume-id", append(many, b)...),
		"InvalidParameterValue": filter("colour", "red"),
	} {
		answer, err := r.ec2.DescribeVolumes(r.ctx, &ec2.DescribeVolumesInput{Filters: []types.Filter{bad}})
		refused(400, code, "", answer, err)
	}
}

func (r *run) dryRuns() {
	id := r.volume(func(i *ec2.CreateVolumeInput) {
		i.TagSpecifications = tagged(types.ResourceTypeVolume, "go-dry", "run")
	})
	dry := aws.Bool(true)
	made, err := r.ec2.CreateVolume(r.ctx, &ec2.CreateVolumeInput{
		AvailabilityZone: aws.String(zone), Size: aws.Int32(1), DryRun: dry,
		TagSpecifications: tagged(types.ResourceTypeVolume, "go-dry", "run"),
	})
	refused(412, "DryRunOperation", "", made, err)
	deleted, err := r.ec2.DeleteVolume(r.ctx, &ec2.DeleteVolumeInput{VolumeId: &id, DryRun: dry})
	refused(412, "DryRunOperation", "", deleted, err)
	taken, err := r.ec2.CreateSnapshot(r.ctx, &ec2.CreateSnapshotInput{VolumeId: &id, DryRun: dry})
	refused(412, "DryRunOperation", "", taken, err)
	ended, err := r.ec2.TerminateInstances(r.ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{r.instance}, DryRun: dry})
	refused(412, "DryRunOperation", "", ended, err)
	zones, err := r.ec2.DescribeAvailabilityZones(r.ctx, &ec2.DescribeAvailabilityZonesInput{DryRun: dry})
	refused(412, "DryRunOperation", "", zones, err)
	equal(r.found(filter("tag:go-dry", "run")), []string{id}, "volumes after dry runs")
}

func (r *run) modifications() {
	id := r.volume(func(i *ec2.CreateVolumeInput) { i.Size = aws.Int32(2) })
	ask := &ec2.DescribeVolumesModificationsInput{VolumeIds: []string{id}}
	none, err := r.ec2.DescribeVolumesModifications(r.ctx, ask)
	refused(400, "InvalidVolumeModification.NotFound", "", none, err)
	r.times(func() {
		change := must(r.ec2.ModifyVolume(r.ctx, &ec2.ModifyVolumeInput{VolumeId: &id, Size: aws.Int32(5)})).VolumeModification
		equal(change.ModificationState, types.VolumeModificationStateModifying, "state of the modification")
		equal([]int32{*change.OriginalSize, *change.TargetSize}, []int32{2, 5}, "sizes")
		early, err := r.ec2.ModifyVolume(r.ctx, &ec2.ModifyVolumeInput{VolumeId: &id, Size: aws.Int32(6)})
		refused(400, "IncorrectModificationState", "", early, err)
		until("completed", func() bool {
			listed := must(r.ec2.DescribeVolumesModifications(r.ctx, ask)).VolumesModifications
			return len(listed) == 1 && listed[0].ModificationState == types.VolumeModificationStateCompleted
		})
	}, map[string]int{"modify_ms": 300, "optimize_ms": 300})
	equal(*r.theVolume(id).Size, int32(5), "size of the volume")
	smaller, err := r.ec2.ModifyVolume(r.ctx, &ec2.ModifyVolumeInput{VolumeId: &id, Size: aws.Int32(4)})
	refused(400, "InvalidParameterValue", "", smaller, err)
}

func (r *run) copies() {
	id := r.volume(func(i *ec2.CreateVolumeInput) { i.Size = aws.Int32(2) })
	ask := &ec2.CopyVolumesInput{
		SourceVolumeId: &id, ClientToken: aws.String("go-copy"), Size: aws.Int32(3),
		TagSpecifications: tagged(types.ResourceTypeVolume, "copy", "yes"),
	}
	made := must(r.ec2.CopyVolumes(r.ctx, ask)).Volumes
	equal(len(made), 1, "copies")
	equal(*made[0].SourceVolumeId, id, "source of the copy")
	equal(*must(r.ec2.CopyVolumes(r.ctx, ask)).Volumes[0].VolumeId, *made[0].VolumeId, "the copy, asked for again")
	r.waitAvailable(*made[0].VolumeId)
	absent, err := r.ec2.CopyVolumes(r.ctx, &ec2.CopyVolumesInput{SourceVolumeId: aws.String(noVolume)})
	refused(400, "InvalidVolume.NotFound", "", absent, err)
}

func (r *run) tags() {
	id := r.volume(func(i *ec2.CreateVolumeInput) {
		i.TagSpecifications = tagged(types.ResourceTypeVolume, "one", "1", "two", "2")
	})
	must(r.ec2.CreateTags(r.ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: tagList("one", "eins", "three", "")}))
	must(r.ec2.DeleteTags(r.ctx, &ec2.DeleteTagsInput{Resources: []string{id}, Tags: []types.Tag{
		{Key: aws.String("two")}, {Key: aws.String("one"), Value: aws.String("other")},
	}}))
	equal(tagMap(r.theVolume(id).Tags), map[string]string{"one": "eins", "three": ""}, "tags")
	rows := must(r.ec2.DescribeTags(r.ctx, &ec2.DescribeTagsInput{Filters: []types.Filter{filter("resource-id", id)}})).Tags
	equal(len(rows), 2, "rows of DescribeTags")
	equal(rows[0].ResourceType, types.ResourceTypeVolume, "kind of the resource")
	many := []string{}
	for n := range 49 {
		many = append(many, fmt.Sprint("k", n), "v")
	}
	answer, err := r.ec2.CreateTags(r.ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: tagList(many...)})
	refused(400, "TagLimitExceeded", "", answer, err)
	answer, err = r.ec2.CreateTags(r.ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: tagList("aws:mine", "x")})
	refused(400, "InvalidParameterValue", "", answer, err)
}

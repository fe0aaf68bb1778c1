package main

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func (r *run) snapshots() {
	volume := r.volume(func(i *ec2.CreateVolumeInput) { i.Size = aws.Int32(2) })
	var id string
	r.times(func() {
		taken := must(r.ec2.CreateSnapshot(r.ctx, &ec2.CreateSnapshotInput{
			VolumeId: &volume, Description: aws.String("of Go"),
			TagSpecifications: tagged(types.ResourceTypeSnapshot, "n", "1"),
		}))
		id = *taken.SnapshotId
		equal(taken.State, types.SnapshotStatePending, "state of a new snapshot")
		early, err := r.ec2.CreateVolume(r.ctx, &ec2.CreateVolumeInput{AvailabilityZone: aws.String(zone), SnapshotId: &id})
		refused(400, "IncorrectState", "", early, err)
		r.leap(20_000)
		r.waitCompleted(id)
	}, map[string]int{"snapshot_ms": 20_000})
	listed := must(r.ec2.DescribeSnapshots(r.ctx, &ec2.DescribeSnapshotsInput{
		OwnerIds: []string{"self"}, Filters: []types.Filter{filter("volume-id", volume)},
	})).Snapshots
	equal(len(listed), 1, "snapshots of the volume")
	equal([]string{*listed[0].SnapshotId, *listed[0].Progress, *listed[0].Description}, []string{id, "100%", "of Go"}, "it")
	equal(tagMap(listed[0].Tags), map[string]string{"n": "1"}, "its tags")
	restored := must(r.ec2.CreateVolume(r.ctx, &ec2.CreateVolumeInput{AvailabilityZone: aws.String(otherZone), SnapshotId: &id}))
	equal(*restored.Size, int32(2), "size of the restored volume")
	equal(*restored.SnapshotId, id, "its snapshot")
	must(r.ec2.DeleteSnapshot(r.ctx, &ec2.DeleteSnapshotInput{SnapshotId: &id}))
	again, err := r.ec2.DeleteSnapshot(r.ctx, &ec2.DeleteSnapshotInput{SnapshotId: &id})
	refused(400, "InvalidSnapshot.NotFound", id, again, err)
	gone, err := r.ec2.DescribeSnapshots(r.ctx, &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})
	refused(400, "InvalidSnapshot.NotFound", id, gone, err)
}

func (r *run) fastRestores() {
	id := r.snapshot(r.volume())
	answer := must(r.ec2.EnableFastSnapshotRestores(r.ctx, &ec2.EnableFastSnapshotRestoresInput{
		AvailabilityZones: []string{zone, "us-west-2z"}, SourceSnapshotIds: []string{id},
	}))
	equal(len(answer.Successful), 1, "zones in which it was enabled")
	equal(*answer.Successful[0].AvailabilityZone, zone, "the zone")
	equal(len(answer.Unsuccessful), 1, "snapshots with zones in which it was not enabled")
	failed := answer.Unsuccessful[0].FastSnapshotRestoreStateErrors[0]
	equal(*failed.AvailabilityZone, "us-west-2z", "the other zone")
	expect(*failed.Error.Code != "" && *failed.Error.Message != "", "no reason given")
	ask := &ec2.DescribeFastSnapshotRestoresInput{Filters: []types.Filter{filter("snapshot-id", id)}}
	until("enabled", func() bool {
		listed := must(r.ec2.DescribeFastSnapshotRestores(r.ctx, ask)).FastSnapshotRestores
		return len(listed) == 1 && listed[0].State == types.FastSnapshotRestoreStateCodeEnabled
	})
}

func (r *run) locks() {
	id := r.snapshot(r.volume())
	lock := must(r.ec2.LockSnapshot(r.ctx, &ec2.LockSnapshotInput{
		SnapshotId: &id, LockMode: types.LockModeGovernance, LockDuration: aws.Int32(2),
	}))
	equal(lock.LockState, types.LockStateGovernance, "state of the lock")
	listed := must(r.ec2.DescribeLockedSnapshots(r.ctx, &ec2.DescribeLockedSnapshotsInput{SnapshotIds: []string{id}})).Snapshots
	equal(len(listed), 1, "locked snapshots")
	kept, err := r.ec2.DeleteSnapshot(r.ctx, &ec2.DeleteSnapshotInput{SnapshotId: &id})
	refused(400, "SnapshotLocked", "", kept, err)
	end := time.Now().Add(40 * 24 * time.Hour)
	lock = must(r.ec2.LockSnapshot(r.ctx, &ec2.LockSnapshotInput{
		SnapshotId: &id, LockMode: types.LockModeCompliance, CoolOffPeriod: aws.Int32(3), ExpirationDate: &end,
	}))
	equal(lock.LockState, types.LockStateComplianceCooloff, "state of a lock that still cools off")
	expect(lock.LockExpiresOn.Sub(end).Abs() < time.Second, "the lock's end is not the one asked for: %v", lock.LockExpiresOn)
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
)

// violated describes a difference from EC2.
type violated string

func expect(truth bool, format string, arguments ...any) {
	if !truth {
		panic(violated(fmt.Sprintf(format, arguments...)))
	}
}

func equal(found, wanted any, what string) {
	expect(reflect.DeepEqual(found, wanted), "%s: %v, not %v", what, found, wanted)
}

// must returns the answer of a call that must succeed.
func must[T any](answer T, err error) T {
	expect(err == nil, "%T: %v", answer, err)
	return answer
}

// refused checks that a call was rejected with this code and HTTP status, a request id and, if given, words that a
// client looks for.
func refused[T any](status int, code, says string, answer T, err error) {
	var api smithy.APIError
	var response *awshttp.ResponseError
	expect(err != nil, "%T: not refused with %s", answer, code)
	expect(errors.As(err, &api) && errors.As(err, &response), "%T: no answer of EC2: %v", answer, err)
	equal(api.ErrorCode(), code, fmt.Sprintf("code of a refused %T (%s)", answer, api.ErrorMessage()))
	equal(response.HTTPStatusCode(), status, "status of "+code)
	expect(response.ServiceRequestID() != "", "%s has no request id", code)
	expect(strings.Contains(api.ErrorMessage(), says), "%s does not say %q: %s", code, says, api.ErrorMessage())
}

// times makes changes take this many milliseconds while f runs.
func (r *run) times(f func(), milliseconds map[string]int) {
	r.put("/timing", milliseconds)
	defer func() {
		zero := map[string]int{}
		for name := range milliseconds {
			zero[name] = 0
		}
		r.put("/timing", zero)
	}()
	f()
}

// leap advances EC2's clock. Everything that is due by then has happened.
func (r *run) leap(milliseconds int) {
	r.send(http.MethodPost, "/advance", map[string]int{"ms": milliseconds})
}

func (r *run) put(path string, body any) {
	r.send(http.MethodPut, path, body)
}

func (r *run) send(method, path string, body any) {
	text := must(json.Marshal(body))
	request := must(http.NewRequestWithContext(r.ctx, method, r.control+path, bytes.NewReader(text)))
	answer := must(http.DefaultClient.Do(request))
	defer answer.Body.Close()
	equal(answer.StatusCode, http.StatusOK, "status of "+path)
}

func until(what string, ask func() bool) {
	end := time.Now().Add(20 * time.Second)
	for !ask() {
		expect(time.Now().Before(end), "not %s within 20 s", what)
		time.Sleep(50 * time.Millisecond)
	}
}

const patience = 20 * time.Second

func (r *run) waitAvailable(ids ...string) {
	waiter := ec2.NewVolumeAvailableWaiter(r.ec2, func(o *ec2.VolumeAvailableWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, 200*time.Millisecond
	})
	err := waiter.Wait(r.ctx, &ec2.DescribeVolumesInput{VolumeIds: ids}, patience)
	expect(err == nil, "waiting for available: %v", err)
}

func (r *run) waitInUse(ids ...string) {
	waiter := ec2.NewVolumeInUseWaiter(r.ec2, func(o *ec2.VolumeInUseWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, 200*time.Millisecond
	})
	err := waiter.Wait(r.ctx, &ec2.DescribeVolumesInput{VolumeIds: ids}, patience)
	expect(err == nil, "waiting for in-use: %v", err)
}

func (r *run) waitDeleted(ids ...string) {
	waiter := ec2.NewVolumeDeletedWaiter(r.ec2, func(o *ec2.VolumeDeletedWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, 200*time.Millisecond
	})
	err := waiter.Wait(r.ctx, &ec2.DescribeVolumesInput{VolumeIds: ids}, patience)
	expect(err == nil, "waiting for deleted: %v", err)
}

func (r *run) waitCompleted(id string) {
	waiter := ec2.NewSnapshotCompletedWaiter(r.ec2, func(o *ec2.SnapshotCompletedWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, 200*time.Millisecond
	})
	err := waiter.Wait(r.ctx, &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}}, patience)
	expect(err == nil, "waiting for completed: %v", err)
}

func (r *run) waitRunning(ids ...string) {
	waiter := ec2.NewInstanceRunningWaiter(r.ec2, func(o *ec2.InstanceRunningWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, 200*time.Millisecond
	})
	err := waiter.Wait(r.ctx, &ec2.DescribeInstancesInput{InstanceIds: ids}, patience)
	expect(err == nil, "waiting for running: %v", err)
}

func (r *run) waitTerminated(ids ...string) {
	waiter := ec2.NewInstanceTerminatedWaiter(r.ec2, func(o *ec2.InstanceTerminatedWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, 200*time.Millisecond
	})
	err := waiter.Wait(r.ctx, &ec2.DescribeInstancesInput{InstanceIds: ids}, patience)
	expect(err == nil, "waiting for terminated: %v", err)
}

// volume makes a volume and waits until it is available.
func (r *run) volume(change ...func(*ec2.CreateVolumeInput)) string {
	input := &ec2.CreateVolumeInput{
		AvailabilityZone: aws.String(zone), Size: aws.Int32(1), VolumeType: types.VolumeTypeGp3,
	}
	for _, f := range change {
		f(input)
	}
	id := *must(r.ec2.CreateVolume(r.ctx, input)).VolumeId
	r.waitAvailable(id)
	return id
}

// snapshot takes a snapshot of a volume and waits until it is completed.
func (r *run) snapshot(volume string) string {
	taken := must(r.ec2.CreateSnapshot(r.ctx, &ec2.CreateSnapshotInput{VolumeId: &volume}))
	r.waitCompleted(*taken.SnapshotId)
	return *taken.SnapshotId
}

func (r *run) theVolume(id string) types.Volume {
	return must(r.ec2.DescribeVolumes(r.ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{id}})).Volumes[0]
}

func tagged(kind types.ResourceType, pairs ...string) []types.TagSpecification {
	return []types.TagSpecification{{ResourceType: kind, Tags: tagList(pairs...)}}
}

func tagList(pairs ...string) []types.Tag {
	tags := []types.Tag{}
	for pair := range slices.Chunk(pairs, 2) {
		tags = append(tags, types.Tag{Key: aws.String(pair[0]), Value: aws.String(pair[1])})
	}
	return tags
}

func tagMap(tags []types.Tag) map[string]string {
	all := map[string]string{}
	for _, tag := range tags {
		all[*tag.Key] = *tag.Value
	}
	return all
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

// found returns the sorted ids of the volumes that match the filters.
func (r *run) found(filters ...types.Filter) []string {
	ids := []string{}
	for _, volume := range must(r.ec2.DescribeVolumes(r.ctx, &ec2.DescribeVolumesInput{Filters: filters})).Volumes {
		ids = append(ids, *volume.VolumeId)
	}
	return sorted(ids)
}

func sorted(ids []string) []string {
	return slices.Sorted(slices.Values(ids))
}

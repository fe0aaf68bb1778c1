#!/usr/bin/env python3
"""Tests ebs-sim with unmodified boto3: paging, filters, dry runs, waiters, error codes, idempotency, lifecycles.

Reads what the simulator's env file exports (AWS_ENDPOINT_URL_EC2, credentials, region, EBS_SIM_CONTROL, ids of the
two instances). Prints the first difference from EC2, and then exits with 1.
"""

import collections
import concurrent.futures
import contextlib
import datetime
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request

import boto3
import botocore.config
import botocore.exceptions

from model_check import ModelCheck

ZONE = "us-west-2a"
OTHER_ZONE = "us-west-2b"
NO_VOLUME = "vol-0123456789abcdef0"
NO_SNAPSHOT = "snap-0123456789abcdef0"
NO_INSTANCE = "i-0123456789abcdef0"

INSTANCE = os.environ["EBS_SIM_INSTANCE_ID"]
CONTROL = os.environ["EBS_SIM_CONTROL"]


class Violated(Exception):
    """The simulator differs from EC2."""


def expect(truth, what):
    if not truth:
        raise Violated(what)


def equal(found, wanted, what):
    expect(found == wanted, f"{what}: {found!r}, not {wanted!r}")


def client_with(**more):
    config = botocore.config.Config(retries={"total_max_attempts": 1}, parameter_validation=True)
    return boto3.client("ec2", config=config, **more)


EC2 = client_with()
CHECK = ModelCheck(EC2)


def refused(code, call, *, status=400, says=None, **arguments):
    """Checks that EC2 rejects a call with this code, this status and, if given, words that a client looks for."""
    name = getattr(call, "__name__", str(call))
    try:
        call(**arguments)
    except botocore.exceptions.ClientError as error:
        answer = error.response
        equal(answer["Error"]["Code"], code, f"code of {name}({arguments}), {answer['Error']['Message']}")
        equal(answer["ResponseMetadata"]["HTTPStatusCode"], status, f"status of {code}")
        expect(answer["ResponseMetadata"].get("RequestId"), f"{code} has no request id")
        if says:
            expect(says in answer["Error"]["Message"], f"{code} does not say {says!r}: {answer['Error']['Message']}")
        return
    raise Violated(f"{name}({arguments}) was not refused with {code}")


@contextlib.contextmanager
def times(**milliseconds):
    """Makes changes take this long until the end of the block."""
    put("/timing", milliseconds)
    try:
        yield
    finally:
        put("/timing", dict.fromkeys(milliseconds, 0))


def leap(milliseconds):
    """Advances EC2's clock. Everything that is due by then has happened."""
    send("POST", "/advance", {"ms": milliseconds})


def put(path, body):
    send("PUT", path, body)


def send(method, path, body):
    request = urllib.request.Request(CONTROL + path, json.dumps(body).encode(), method=method)
    urllib.request.urlopen(request, timeout=10).close()


@contextlib.contextmanager
def fault(effect, *actions, **more):
    """Injects a fault into these actions until the end of the block."""
    send("POST", "/faults", [{"name": "boto3", "actions": list(actions), "effect": effect, **more}])
    try:
        yield
    finally:
        send("DELETE", "/faults?name=boto3", None)


def wait(name, **arguments):
    EC2.get_waiter(name).wait(WaiterConfig={"Delay": 0.1, "MaxAttempts": 100}, **arguments)


def tagged(kind, **tags):
    return [{"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}]


def tags_of(thing):
    return {tag["Key"]: tag["Value"] for tag in thing.get("Tags", [])}


def volume(**arguments):
    """Creates a volume, and returns its id once it is available."""
    made = EC2.create_volume(**{"AvailabilityZone": ZONE, "Size": 1, "VolumeType": "gp3", **arguments})
    wait("volume_available", VolumeIds=[made["VolumeId"]])
    return made["VolumeId"]


def found(**arguments):
    """Returns the ids of the volumes that match the filters."""
    filters = [{"Name": name.replace("__", ":"), "Values": values} for name, values in arguments.items()]
    return {volume["VolumeId"] for volume in EC2.describe_volumes(Filters=filters)["Volumes"]}


def the_volume(volume_id):
    return EC2.describe_volumes(VolumeIds=[volume_id])["Volumes"][0]


def gone(volume_id):
    EC2.delete_volume(VolumeId=volume_id)
    wait("volume_deleted", VolumeIds=[volume_id])


def a_volume_lives_its_life():
    with times(create_ms=20_000):
        made = EC2.create_volume(
            AvailabilityZone=ZONE, Size=8, VolumeType="gp3", Iops=3500, Throughput=200, Encrypted=True,
            TagSpecifications=tagged("volume", Name="life", odd="<&> ä \"'"),
        )
        equal(made["State"], "creating", "state of a new volume")
        expect(abs(made["CreateTime"] - now()) < datetime.timedelta(minutes=1), "CreateTime is not now")
        volume_id = made["VolumeId"]
        refused("IncorrectState", EC2.attach_volume, VolumeId=volume_id, InstanceId=INSTANCE, Device="/dev/xvdaa")
        leap(20_000)
        wait("volume_available", VolumeIds=[volume_id])
    there = the_volume(volume_id)
    shape = {key: there[key] for key in ("Size", "VolumeType", "Iops", "Throughput", "AvailabilityZone", "Encrypted")}
    equal(shape, {"Size": 8, "VolumeType": "gp3", "Iops": 3500, "Throughput": 200, "AvailabilityZone": ZONE,
                  "Encrypted": True}, "the volume")
    expect(there["KmsKeyId"].startswith("arn:aws:kms:us-west-2:"), "an encrypted volume names its key")
    equal(tags_of(there), {"Name": "life", "odd": "<&> ä \"'"}, "its tags")
    equal(there["Attachments"], [], "its attachments")

    with times(attach_ms=400):
        attached = EC2.attach_volume(VolumeId=volume_id, InstanceId=INSTANCE, Device="/dev/xvdaa")
        equal((attached["State"], attached["Device"]), ("attaching", "/dev/xvdaa"), "the attachment")
        wait("volume_in_use", VolumeIds=[volume_id])
        until("attached", lambda: the_volume(volume_id)["Attachments"][0]["State"] == "attached")
    mapping = EC2.describe_instances(InstanceIds=[INSTANCE])["Reservations"][0]["Instances"][0]["BlockDeviceMappings"]
    expect({"/dev/xvdaa": volume_id}.items() <= {m["DeviceName"]: m["Ebs"]["VolumeId"] for m in mapping}.items(),
           f"the instance does not list the volume: {mapping}")
    refused("VolumeInUse", EC2.delete_volume, VolumeId=volume_id)
    refused("VolumeInUse", EC2.attach_volume, VolumeId=volume_id, InstanceId=INSTANCE, Device="/dev/xvdab")

    with times(detach_ms=400):
        equal(EC2.detach_volume(VolumeId=volume_id)["State"], "detaching", "state of the attachment")
        wait("volume_available", VolumeIds=[volume_id])
    with times(delete_ms=400):
        EC2.delete_volume(VolumeId=volume_id)
        wait("volume_deleted", VolumeIds=[volume_id])
    refused("InvalidVolume.NotFound", EC2.describe_volumes, says=volume_id, VolumeIds=[volume_id])


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def until(what, ask):
    end = time.monotonic() + 20
    while not ask():
        expect(time.monotonic() < end, f"not {what} within 20 s")
        time.sleep(0.05)


def tokens_make_creation_idempotent():
    ask = {"AvailabilityZone": ZONE, "Size": 2, "VolumeType": "gp3", "ClientToken": "boto3-token"}
    first = EC2.create_volume(**ask, TagSpecifications=tagged("volume", a="1", b="2"))
    again = EC2.create_volume(**ask, TagSpecifications=tagged("volume", b="2", a="1"))
    equal(again["VolumeId"], first["VolumeId"], "the same token and request, tags in another order")
    for change in ({"Size": 3}, {"VolumeType": "gp2"}, {"Encrypted": True}, {}):
        refused("IdempotentParameterMismatch", EC2.create_volume, **{**ask, **change})
    wait("volume_available", VolumeIds=[first["VolumeId"]])
    gone(first["VolumeId"])
    refused("IdempotentParameterMismatch", EC2.create_volume, **ask,
            TagSpecifications=tagged("volume", a="1", b="2"))
    other = EC2.create_volume(**{**ask, "ClientToken": "boto3-token-2"})
    expect(other["VolumeId"] != first["VolumeId"], "another token gave the same volume")
    plain = {key: value for key, value in ask.items() if key != "ClientToken"}
    # botocore generates a token for each call without one.
    expect(EC2.create_volume(**plain)["VolumeId"] != EC2.create_volume(**plain)["VolumeId"], "one volume for two calls")


def lists_come_in_pages():
    made = {volume(TagSpecifications=tagged("volume", pages="twelve", n=str(n))) for n in range(12)}
    filters = [{"Name": "tag:pages", "Values": ["twelve"]}]
    pages = list(EC2.get_paginator("describe_volumes").paginate(Filters=filters, PaginationConfig={"PageSize": 5}))
    equal([len(page["Volumes"]) for page in pages], [5, 5, 2], "pages of five")
    equal({v["VolumeId"] for page in pages for v in page["Volumes"]}, made, "volumes of all pages")
    zone = [{"Name": "availability-zone", "Values": [ZONE]}]
    status = EC2.get_paginator("describe_volume_status").paginate(Filters=zone, PaginationConfig={"PageSize": 7})
    expect(made <= {v["VolumeId"] for page in status for v in page["VolumeStatuses"]}, "a status is on no page")
    # EC2 does not support this filter for this action.
    refused("InvalidParameterValue", EC2.describe_volume_status, says="volume-id",
            Filters=[{"Name": "volume-id", "Values": sorted(made)}])
    tags = EC2.get_paginator("describe_tags").paginate(
        Filters=[{"Name": "key", "Values": ["pages"]}], PaginationConfig={"PageSize": 5})
    equal({t["ResourceId"] for page in tags for t in page["Tags"]}, made, "tags of all pages")

    first = EC2.describe_volumes(Filters=filters, MaxResults=5)
    gone(first["Volumes"][-1]["VolumeId"])
    second = EC2.describe_volumes(Filters=filters, MaxResults=5, NextToken=first["NextToken"])
    both = {v["VolumeId"] for v in first["Volumes"] + second["Volumes"]}
    equal(len(both), 10, "volumes of two pages, one deleted between them")

    for least in (-1, 1, 4):
        refused("InvalidParameterValue", EC2.describe_volumes, MaxResults=least)
    refused("InvalidParameterCombination", EC2.describe_volumes, VolumeIds=sorted(made)[:1], MaxResults=5)
    for token in ("garbage", first["NextToken"] + "x"):
        refused("InvalidParameterValue", EC2.describe_volumes, says="NextToken", Filters=filters, MaxResults=5, NextToken=token)


def filters_choose():
    a = volume(TagSpecifications=tagged("volume", set="filters", name="alpha-1", star="a*b"))
    b = volume(TagSpecifications=tagged("volume", set="filters", name="alpha-2", star="axb"), VolumeType="gp2")
    c = volume(TagSpecifications=tagged("volume", set="filters", name="beta-1"), AvailabilityZone=OTHER_ZONE, Size=3)
    ours = {"tag__set": ["filters"]}
    equal(found(**ours), {a, b, c}, "by tag")
    equal(found(**ours, tag__name=["alpha-*"]), {a, b}, "a star")
    equal(found(**ours, tag__name=["?????-1"]), {a}, "question marks")
    equal(found(**ours, tag__name=["alpha-1", "beta-1"]), {a, c}, "either of two values")
    equal(found(**ours, tag__star=["a\\*b"]), {a}, "an escaped star")
    equal(found(**ours, tag__star=["a*b"]), {a, b}, "a star that is none")
    equal(found(**ours, tag__name=["ALPHA-1"]), set(), "case matters")
    for name, value, wanted in [
        ("volume-type", "gp2", {b}), ("availability-zone", OTHER_ZONE, {c}), ("size", "3", {c}), ("status", "available", {a, b, c}),
        ("tag-key", "star", {a, b}), ("encrypted", "true", set()), ("multi-attach-enabled", "false", {a, b, c}),
        ("create-time", "20*", {a, b, c}), ("attachment.status", "attached", set()),
    ]:
        equal(found(**ours, **{name: [value]}), wanted, f"filter {name}={value}")
    equal(found(**{"volume-id": [a, NO_VOLUME]}), {a}, "an id that does not exist, in a filter")
    many = [NO_VOLUME] * 199 + [a]
    equal(found(**{"volume-id": many}), {a}, "200 values")
    refused("FilterLimitExceeded", EC2.describe_volumes, Filters=[{"Name": "volume-id", "Values": many + [b]}])
    for name in ("colour", "Volume-Id", "tags:set"):
        refused("InvalidParameterValue", EC2.describe_volumes, says=name, Filters=[{"Name": name, "Values": ["x"]}])


def dry_runs_do_nothing():
    it = volume(TagSpecifications=tagged("volume", dry="run"))
    snapshot = EC2.create_snapshot(VolumeId=it)["SnapshotId"]
    wait("snapshot_completed", SnapshotIds=[snapshot])
    calls = [
        (EC2.create_volume, {"AvailabilityZone": ZONE, "Size": 1, "TagSpecifications": tagged("volume", dry="run")}),
        (EC2.copy_volumes, {"SourceVolumeId": it}),
        (EC2.attach_volume, {"VolumeId": it, "InstanceId": INSTANCE, "Device": "/dev/xvdaa"}),
        (EC2.modify_volume, {"VolumeId": it, "Size": 2}),
        (EC2.create_snapshot, {"VolumeId": it}),
        (EC2.create_tags, {"Resources": [it], "Tags": [{"Key": "k", "Value": "v"}]}),
        (EC2.delete_tags, {"Resources": [it], "Tags": [{"Key": "dry"}]}),
        (EC2.enable_fast_snapshot_restores, {"AvailabilityZones": [ZONE], "SourceSnapshotIds": [snapshot]}),
        (EC2.lock_snapshot, {"SnapshotId": snapshot, "LockMode": "governance", "LockDuration": 1}),
        (EC2.delete_snapshot, {"SnapshotId": snapshot}),
        (EC2.delete_volume, {"VolumeId": it}),
        (EC2.run_instances, {"ImageId": "ami-0123456789abcdef0", "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}),
        (EC2.terminate_instances, {"InstanceIds": [INSTANCE]}),
        (EC2.describe_volumes, {}),
        (EC2.describe_volume_status, {}),
        (EC2.describe_volumes_modifications, {}),
        (EC2.describe_snapshots, {}),
        (EC2.describe_fast_snapshot_restores, {}),
        (EC2.describe_locked_snapshots, {}),
        (EC2.describe_tags, {}),
        (EC2.describe_instances, {}),
        (EC2.describe_instance_types, {}),
        (EC2.describe_availability_zones, {}),
    ]
    before = ledger_end()
    for call, arguments in calls:
        refused("DryRunOperation", call, status=412, DryRun=True, **arguments)
    entries = ledger(before)
    equal([entry["dry_run"] for entry in entries], [True] * len(calls), "dry runs in the ledger")
    equal(found(tag__dry=["run"]), {it}, "volumes after dry runs")
    equal(tags_of(the_volume(it)), {"dry": "run"}, "tags after dry runs")
    equal(the_volume(it)["Size"], 1, "size after a dry run")
    equal(the_volume(it)["Attachments"], [], "attachments after a dry run")
    equal([s["State"] for s in EC2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"]], ["completed"], "snapshot")
    state = EC2.describe_instances(InstanceIds=[INSTANCE])["Reservations"][0]["Instances"][0]["State"]
    equal(state, {"Name": "running", "Code": 16}, "the instance")


def ledger(since):
    with urllib.request.urlopen(f"{CONTROL}/ledger?since={since}", timeout=10) as answer:
        return json.load(answer)["calls"]


def ledger_end():
    with urllib.request.urlopen(f"{CONTROL}/ledger?since=1000000", timeout=10) as answer:
        return json.load(answer)["next"]


def errors_of_volumes_have_ec2s_codes():
    create = {"AvailabilityZone": ZONE, "Size": 4}
    refused("InvalidZone.NotFound", EC2.create_volume, Size=4, AvailabilityZone="us-west-2z")
    refused("MissingParameter", EC2.create_volume, Size=4)
    refused("MissingParameter", EC2.create_volume, AvailabilityZone=ZONE)
    refused("UnknownVolumeType", EC2.create_volume, **create, VolumeType="gp9")
    for bad in ({"Size": 0}, {"Size": -1}, {"Size": 2**31 - 1}, {"Size": 100, "VolumeType": "st1"}):
        refused("InvalidParameterValue", EC2.create_volume, **{**create, **bad})
    refused("InvalidParameterCombination", EC2.create_volume, says="parameter iops is not supported", **create,
            VolumeType="gp2", Iops=3000)
    refused("InvalidParameterCombination", EC2.create_volume, **create, VolumeType="gp3", MultiAttachEnabled=True)
    refused("InvalidParameterDependency", EC2.create_volume, **create, KmsKeyId="alias/k")
    refused("InvalidSnapshot.NotFound", EC2.create_volume, AvailabilityZone=ZONE, SnapshotId=NO_SNAPSHOT)
    refused("InvalidVolume.NotFound", EC2.copy_volumes, SourceVolumeId=NO_VOLUME)
    for call in (EC2.delete_volume, EC2.create_snapshot, EC2.detach_volume):
        refused("InvalidVolume.NotFound", call, says=NO_VOLUME, VolumeId=NO_VOLUME)
        refused("InvalidParameterValue", call, VolumeId="disk-1")
        refused("InvalidVolumeID.Malformed", call, VolumeId="vol-xyz")
    refused("InvalidVolume.NotFound", EC2.modify_volume, VolumeId=NO_VOLUME, Size=2)
    refused("InvalidVolume.NotFound", EC2.describe_volume_status, VolumeIds=[NO_VOLUME])
    # The driver reads the limits from these errors.
    for kind, says in (("io2", "maximum is 256000"), ("io1", "maximum is 64000"), ("gp3", "maximum is 80000")):
        refused("InvalidParameterValue", EC2.create_volume, says=says, **create, VolumeType=kind, Iops=2**31 - 1)


def errors_of_attachments_have_ec2s_codes():
    a, b, far = volume(), volume(), volume(AvailabilityZone=OTHER_ZONE)
    attach = {"InstanceId": INSTANCE, "Device": "/dev/xvdba"}
    refused("IncorrectState", EC2.detach_volume, VolumeId=a)
    EC2.attach_volume(VolumeId=a, **attach)
    refused("InvalidParameterValue", EC2.attach_volume, says="already in use", VolumeId=b, **attach)
    refused("InvalidVolume.ZoneMismatch", EC2.attach_volume, VolumeId=far, InstanceId=INSTANCE, Device="/dev/xvdbb")
    refused("InvalidInstanceID.NotFound", EC2.attach_volume, VolumeId=b, InstanceId=NO_INSTANCE, Device="/dev/xvdbb")
    refused("InvalidInstanceID.Malformed", EC2.attach_volume, VolumeId=b, InstanceId="i-xyz", Device="/dev/xvdbb")
    refused("InvalidParameterValue", EC2.attach_volume, VolumeId=b, InstanceId=INSTANCE, Device="/dev/nvme1n1")
    refused("InvalidInstanceID.NotFound", EC2.describe_instances, says=NO_INSTANCE, InstanceIds=[INSTANCE, NO_INSTANCE])
    other = os.environ["EBS_SIM_SECOND_INSTANCE_ID"]
    refused("InvalidAttachment.NotFound", EC2.detach_volume, VolumeId=a, InstanceId=other)
    refused("InvalidAttachment.NotFound", EC2.detach_volume, VolumeId=a, Device="/dev/xvdbz")
    with times(detach_ms=60_000):
        EC2.detach_volume(VolumeId=a, InstanceId=INSTANCE, Device="/dev/xvdba")
        refused("IncorrectState", EC2.detach_volume, VolumeId=a)
        refused("VolumeInUse", EC2.attach_volume, VolumeId=a, InstanceId=INSTANCE, Device="/dev/xvdbc")
        refused("InvalidParameterValue", EC2.attach_volume, says="already in use", VolumeId=b, **attach)


def an_instance_takes_as_many_volumes_as_its_type():
    device = (f"/dev/xvd{first}{second}" for first in "bd" for second in "abcdefghijklmnopqrstuvwx")
    run = EC2.run_instances(ImageId="ami-0123456789abcdef0", InstanceType="m5.large", MinCount=1, MaxCount=1,
                            Placement={"AvailabilityZone": ZONE})
    instance = run["Instances"][0]["InstanceId"]
    wait("instance_running", InstanceIds=[instance])
    volumes = [volume() for _ in range(27)]
    # 27 attachments, including the root volume. The first network interface does not count.
    for it in volumes[:26]:
        EC2.attach_volume(VolumeId=it, InstanceId=instance, Device=next(device))
    refused("AttachmentLimitExceeded", EC2.attach_volume, VolumeId=volumes[26], InstanceId=instance, Device=next(device))
    EC2.terminate_instances(InstanceIds=[instance])
    wait("instance_terminated", InstanceIds=[instance])
    wait("volume_available", VolumeIds=volumes)


def io2_volumes_can_be_shared():
    it = volume(VolumeType="io2", Size=4, Iops=100, MultiAttachEnabled=True)
    run = EC2.run_instances(ImageId="ami-0123456789abcdef0", InstanceType="m5.large", MinCount=2, MaxCount=2,
                            Placement={"AvailabilityZone": ZONE}, TagSpecifications=tagged("instance", pair="yes"))
    pair = [instance["InstanceId"] for instance in run["Instances"]]
    equal(len({run["ReservationId"]} | {r["ReservationId"] for r in EC2.describe_instances(
        InstanceIds=pair)["Reservations"]}), 1, "reservations of instances that were run together")
    wait("instance_running", InstanceIds=pair)
    for instance in pair:
        EC2.attach_volume(VolumeId=it, InstanceId=instance, Device="/dev/sdf")
    until("attached twice", lambda: [a["State"] for a in the_volume(it)["Attachments"]] == ["attached"] * 2)
    refused("MissingParameter", EC2.detach_volume, VolumeId=it)
    for instance in pair:
        EC2.detach_volume(VolumeId=it, InstanceId=instance)
    wait("volume_available", VolumeIds=[it])
    EC2.terminate_instances(InstanceIds=pair)
    wait("instance_terminated", InstanceIds=pair)


def instances_come_and_go():
    kept = volume()
    run = EC2.run_instances(
        ImageId="ami-0123456789abcdef0", InstanceType="c5.xlarge", MinCount=1, MaxCount=1, ClientToken="boto3-run",
        Placement={"AvailabilityZone": ZONE}, TagSpecifications=tagged("instance", Name="guest"),
        BlockDeviceMappings=[{"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 3, "DeleteOnTermination": True}}],
    )
    instance = run["Instances"][0]["InstanceId"]
    wait("instance_running", InstanceIds=[instance])
    there = EC2.describe_instances(Filters=[{"Name": "tag:Name", "Values": ["guest"]}])["Reservations"][0]["Instances"][0]
    equal((there["InstanceId"], there["InstanceType"], there["Placement"]["AvailabilityZone"]),
          (instance, "c5.xlarge", ZONE), "the instance")
    own = {m["DeviceName"]: m["Ebs"]["VolumeId"] for m in there["BlockDeviceMappings"]}["/dev/sdf"]
    equal(the_volume(own)["Size"], 3, "size of the volume it was born with")
    EC2.attach_volume(VolumeId=kept, InstanceId=instance, Device="/dev/sdg")
    wait("volume_in_use", VolumeIds=[kept])
    change = EC2.terminate_instances(InstanceIds=[instance])["TerminatingInstances"][0]
    equal((change["InstanceId"], change["PreviousState"]["Name"]), (instance, "running"), "the change of state")
    wait("instance_terminated", InstanceIds=[instance])
    wait("volume_available", VolumeIds=[kept])
    wait("volume_deleted", VolumeIds=[own])
    refused("InvalidInstanceID.NotFound", EC2.terminate_instances, InstanceIds=[NO_INSTANCE])
    expect(EC2.describe_instance_types(InstanceTypes=["c5.xlarge"])["InstanceTypes"][0]["EbsInfo"]["NvmeSupport"]
           == "required", "c5.xlarge has NVMe")
    refused("InvalidInstanceType", EC2.describe_instance_types, InstanceTypes=["huge"])


def volumes_grow_and_change():
    it = volume(Size=2)
    refused("InvalidVolumeModification.NotFound", EC2.describe_volumes_modifications, VolumeIds=[it])
    with times(modify_ms=400, optimize_ms=400):
        change = EC2.modify_volume(VolumeId=it, Size=8, Iops=4000)["VolumeModification"]
        equal((change["ModificationState"], change["OriginalSize"], change["TargetSize"], change["TargetIops"]),
              ("modifying", 2, 8, 4000), "the modification")
        refused("IncorrectModificationState", EC2.modify_volume, VolumeId=it, Size=9)
        seen = set()
        until("completed", lambda: seen.add(modification(it)["ModificationState"]) or "completed" in seen)
        expect("optimizing" in seen or "modifying" in seen, f"states seen: {seen}")
    equal((the_volume(it)["Size"], the_volume(it)["Iops"], modification(it)["Progress"]), (8, 4000, 100), "the volume")
    expect(modification(it)["EndTime"] >= modification(it)["StartTime"], "the end is before the start")
    refused("InvalidParameterValue", EC2.modify_volume, VolumeId=it, Size=4)
    refused("InvalidVolume.NotFound", EC2.modify_volume, VolumeId=NO_VOLUME, Size=4)
    refused("InvalidParameterCombination", EC2.modify_volume, VolumeId=it, VolumeType="gp2", Iops=3000)
    filters = [{"Name": "volume-id", "Values": [it, NO_VOLUME]}]
    equal(len(EC2.describe_volumes_modifications(Filters=filters)["VolumesModifications"]), 1, "by filter")


def modification(volume_id):
    return EC2.describe_volumes_modifications(VolumeIds=[volume_id])["VolumesModifications"][0]


def snapshots_are_taken_and_restored():
    it = volume(Size=2, TagSpecifications=tagged("volume", from_="here"))
    with times(snapshot_ms=20_000):
        taken = EC2.create_snapshot(VolumeId=it, Description="of boto3", TagSpecifications=tagged("snapshot", n="1"))
        equal((taken["State"], taken["VolumeId"], taken["VolumeSize"]), ("pending", it, 2), "the snapshot")
        snapshot = taken["SnapshotId"]
        refused("IncorrectState", EC2.create_volume, AvailabilityZone=ZONE, SnapshotId=snapshot)
        leap(20_000)
        wait("snapshot_completed", SnapshotIds=[snapshot])
    listed = EC2.describe_snapshots(OwnerIds=["self"], Filters=[{"Name": "volume-id", "Values": [it]}])["Snapshots"]
    equal([(s["SnapshotId"], s["Progress"], s["Description"], tags_of(s)) for s in listed],
          [(snapshot, "100%", "of boto3", {"n": "1"})], "the list of snapshots")
    expect(listed[0]["CompletionTime"] >= listed[0]["StartTime"], "completed before it began")
    equal(EC2.describe_snapshots(OwnerIds=["amazon"], Filters=[{"Name": "volume-id", "Values": [it]}])["Snapshots"], [],
          "snapshots of Amazon")
    restored = EC2.create_volume(AvailabilityZone=OTHER_ZONE, SnapshotId=snapshot)
    equal((restored["Size"], restored["SnapshotId"]), (2, snapshot), "the restored volume")
    refused("InvalidParameterValue", EC2.create_volume, AvailabilityZone=ZONE, SnapshotId=snapshot, Size=1)
    EC2.delete_snapshot(SnapshotId=snapshot)
    refused("InvalidSnapshot.NotFound", EC2.delete_snapshot, says=snapshot, SnapshotId=snapshot)
    refused("InvalidSnapshot.NotFound", EC2.describe_snapshots, SnapshotIds=[snapshot])
    refused("InvalidSnapshotID.Malformed", EC2.delete_snapshot, SnapshotId="snap-xyz")

    many = volume()
    with times(snapshot_ms=60_000):
        taken = [EC2.create_snapshot(VolumeId=many)["SnapshotId"] for _ in range(5)]
        refused("ConcurrentSnapshotLimitExceeded", EC2.create_snapshot, VolumeId=many)
    pages = EC2.get_paginator("describe_snapshots").paginate(
        OwnerIds=["self"], Filters=[{"Name": "snapshot-id", "Values": taken}], PaginationConfig={"PageSize": 5})
    equal({s["SnapshotId"] for page in pages for s in page["Snapshots"]}, set(taken), "snapshots of all pages")


def fast_restores_are_enabled_by_zone():
    snapshot = EC2.create_snapshot(VolumeId=volume())["SnapshotId"]
    wait("snapshot_completed", SnapshotIds=[snapshot])
    answer = EC2.enable_fast_snapshot_restores(
        AvailabilityZones=[ZONE, "us-west-2z"], SourceSnapshotIds=[snapshot, NO_SNAPSHOT])
    equal([(s["SnapshotId"], s["AvailabilityZone"]) for s in answer["Successful"]], [(snapshot, ZONE)], "enabled")
    expect(answer["Successful"][0]["State"] in ("enabling", "optimizing", "enabled"), "state of the fast restore")
    failed = {(s["SnapshotId"], e["AvailabilityZone"]) for s in answer["Unsuccessful"]
              for e in s["FastSnapshotRestoreStateErrors"] if e["Error"]["Code"] and e["Error"]["Message"]}
    expect({(snapshot, "us-west-2z"), (NO_SNAPSHOT, ZONE)} <= failed, f"not enabled: {failed}")
    filters = [{"Name": "snapshot-id", "Values": [snapshot]}]
    until("enabled", lambda: [r["State"] for r in EC2.describe_fast_snapshot_restores(
        Filters=filters)["FastSnapshotRestores"]] == ["enabled"])


def locked_snapshots_stay():
    snapshot = EC2.create_snapshot(VolumeId=volume())["SnapshotId"]
    wait("snapshot_completed", SnapshotIds=[snapshot])
    lock = EC2.lock_snapshot(SnapshotId=snapshot, LockMode="governance", LockDuration=2)
    equal((lock["SnapshotId"], lock["LockState"], lock["LockDuration"]), (snapshot, "governance", 2), "the lock")
    equal(lock["LockExpiresOn"] - lock["LockDurationStartTime"], datetime.timedelta(days=2), "how long it is locked")
    listed = EC2.describe_locked_snapshots(SnapshotIds=[snapshot])["Snapshots"]
    equal([(s["SnapshotId"], s["LockState"]) for s in listed], [(snapshot, "governance")], "locked snapshots")
    refused("SnapshotLocked", EC2.delete_snapshot, SnapshotId=snapshot)
    end = now() + datetime.timedelta(days=40)
    lock = EC2.lock_snapshot(SnapshotId=snapshot, LockMode="compliance", CoolOffPeriod=3, ExpirationDate=end)
    equal(lock["LockState"], "compliance-cooloff", "state of a lock that still cools off")
    expect(abs(lock["LockExpiresOn"] - end) < datetime.timedelta(seconds=1), "the lock's end is not the one asked for")
    refused("InvalidSnapshot.NotFound", EC2.lock_snapshot, SnapshotId=NO_SNAPSHOT, LockMode="governance", LockDuration=1)
    refused("InvalidParameterValue", EC2.lock_snapshot, SnapshotId=snapshot, LockMode="forever", LockDuration=1)
    refused("InvalidParameterCombination", EC2.lock_snapshot, SnapshotId=snapshot, LockMode="governance",
            LockDuration=1, ExpirationDate=end)


def volumes_are_copied():
    it = volume(Size=2, VolumeType="gp3")
    copy = EC2.copy_volumes(SourceVolumeId=it, ClientToken="boto3-copy", Size=3,
                            TagSpecifications=tagged("volume", copy="yes"))["Volumes"]
    equal([(v["SourceVolumeId"], v["Size"], v["AvailabilityZone"], tags_of(v)) for v in copy],
          [(it, 3, ZONE, {"copy": "yes"})], "the copy")
    again = EC2.copy_volumes(SourceVolumeId=it, ClientToken="boto3-copy", Size=3,
                             TagSpecifications=tagged("volume", copy="yes"))["Volumes"]
    equal(again[0]["VolumeId"], copy[0]["VolumeId"], "the copy, asked for again")
    refused("IdempotentParameterMismatch", EC2.copy_volumes, SourceVolumeId=it, ClientToken="boto3-copy", Size=4)
    wait("volume_available", VolumeIds=[copy[0]["VolumeId"]])
    equal(found(**{"source-volume-id": [it]}), {copy[0]["VolumeId"]}, "copies by their source")


def tags_have_rules():
    it = volume(TagSpecifications=tagged("volume", one="1", two="2"))
    EC2.create_tags(Resources=[it], Tags=[{"Key": "one", "Value": "eins"}, {"Key": "three", "Value": ""}])
    equal(tags_of(the_volume(it)), {"one": "eins", "two": "2", "three": ""}, "tags after CreateTags")
    EC2.delete_tags(Resources=[it], Tags=[{"Key": "one", "Value": "other"}, {"Key": "two"}, {"Key": "absent"}])
    equal(tags_of(the_volume(it)), {"one": "eins", "three": ""}, "tags after DeleteTags")
    rows = EC2.describe_tags(Filters=[{"Name": "resource-id", "Values": [it]}])["Tags"]
    equal({(r["Key"], r["Value"], r["ResourceType"]) for r in rows},
          {("one", "eins", "volume"), ("three", "", "volume")}, "rows of DescribeTags")
    refused("InvalidVolume.NotFound", EC2.create_tags, Resources=[it, NO_VOLUME], Tags=[{"Key": "all", "Value": "or none"}])
    expect("all" not in tags_of(the_volume(it)), "a call that failed has tagged one of its resources")
    refused("InvalidParameterValue", EC2.create_tags, Resources=[it], Tags=[{"Key": "aws:mine", "Value": "x"}])
    refused("InvalidParameterValue", EC2.create_tags, Resources=[it], Tags=[{"Key": "k" * 128, "Value": "v" * 257}])
    refused("TagLimitExceeded", EC2.create_tags, Resources=[it],
            Tags=[{"Key": f"k{n}", "Value": "v"} for n in range(49)])
    refused("InvalidParameterValue", EC2.create_volume, AvailabilityZone=ZONE, Size=1,
            TagSpecifications=tagged("snapshot", wrong="kind"))


def nodes_of_clusters_have_volumes_too():
    config = botocore.config.Config(retries={"total_max_attempts": 1})
    account = boto3.client("sts", config=config).get_caller_identity()["Account"]
    equal(account, EC2.describe_instances(InstanceIds=[INSTANCE])["Reservations"][0]["OwnerId"], "the account")
    sagemaker = boto3.client("sagemaker", config=config)
    it = volume()
    node = {"ClusterArn": f"arn:aws:sagemaker:us-west-2:{account}:cluster/abc123def456", "NodeId": NO_INSTANCE}
    answer = sagemaker.attach_cluster_node_volume(**node, VolumeId=it)
    equal({key: answer[key] for key in ("ClusterArn", "NodeId", "VolumeId", "Status")},
          {**node, "VolumeId": it, "Status": "attaching"}, "the answer")
    expect(abs(answer["AttachTime"] - now()) < datetime.timedelta(minutes=1), "AttachTime is not now")
    expect(re.fullmatch("/dev/(xvd[a-z]|sd[b-z]|sd[f-p][1-6])", answer["DeviceName"]), answer["DeviceName"])
    wait("volume_in_use", VolumeIds=[it])
    attachment = the_volume(it)["Attachments"][0]
    equal(attachment["AssociatedResource"], f"{node['ClusterArn']}-{NO_INSTANCE}", "what EC2 shows")
    expect("InstanceId" not in attachment, "EC2 shows an instance that is not ours")
    refused("UnsupportedOperation", EC2.detach_volume, VolumeId=it)
    refused("ValidationException", sagemaker.attach_cluster_node_volume, says="HyperPod - Ec2ErrCode: VolumeInUse",
            **node, VolumeId=it)
    refused("ValidationException", sagemaker.detach_cluster_node_volume, says="Ec2ErrCode: InvalidVolume.NotFound",
            **node, VolumeId=NO_VOLUME)
    equal(sagemaker.detach_cluster_node_volume(**node, VolumeId=it)["Status"], "detaching", "state of the attachment")
    wait("volume_available", VolumeIds=[it])
    refused("UnknownOperationException", sagemaker.list_clusters)


def zones_are_listed():
    zones = {zone["ZoneName"]: zone for zone in EC2.describe_availability_zones()["AvailabilityZones"]}
    equal((zones[ZONE]["ZoneId"], zones[ZONE]["State"], zones[ZONE]["RegionName"], zones[ZONE]["ZoneType"]),
          ("usw2-az1", "available", "us-west-2", "availability-zone"), ZONE)
    by_id = EC2.create_volume(AvailabilityZoneId="usw2-az2", Size=1)
    equal((by_id["AvailabilityZone"], by_id["AvailabilityZoneId"]), (OTHER_ZONE, "usw2-az2"), "a volume by its zone's id")


def nobody_gets_in_without_the_secret():
    for bad in ({"aws_secret_access_key": "wrong"}, {"aws_access_key_id": "AKIAOTHER"}, {"aws_session_token": "stolen"}):
        keys = {"aws_access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
                "aws_secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"], **bad}
        refused("AuthFailure", client_with(**keys).describe_volumes, status=401)
    unsigned = botocore.config.Config(signature_version=botocore.UNSIGNED, retries={"total_max_attempts": 1})
    refused("MissingAuthenticationToken", boto3.client("ec2", config=unsigned).describe_volumes, status=403)
    refused("InvalidAction", EC2.describe_vpcs)


def signed_links_work_until_they_expire():
    link = EC2.generate_presigned_url("describe_volumes", Params={"MaxResults": 5}, ExpiresIn=60, HttpMethod="GET")
    with urllib.request.urlopen(link, timeout=10) as answer:
        expect(b"<DescribeVolumesResponse" in answer.read(), "a signed link has no answer")
    try:
        urllib.request.urlopen(link.replace("MaxResults=5", "MaxResults=6"), timeout=10)
        raise Violated("a signed link that was changed is answered")
    except urllib.error.HTTPError as error:
        equal(error.code, 401, "status of a link that was changed")


def every_parameter_of_the_model_is_known():
    """The simulator supports, or rejects by name, everything that a client of this version can send."""
    for operation in supported():
        model = EC2.meta.service_model.operation_model(operation)
        for name, shape in model.input_shape.members.items():
            if name == "DryRun":
                continue
            arguments = {required: sample(model.input_shape.members[required]) for required in model.input_shape.required_members}
            arguments[name] = sample(shape)
            if "DryRun" in model.input_shape.members:
                arguments["DryRun"] = True
            try:
                EC2._make_api_call(operation, arguments)
            except botocore.exceptions.ClientError as error:
                code = error.response["Error"]["Code"]
                expect(code not in ("UnknownParameter", "InvalidAction"), f"{operation} does not know {name}: {code}")


def supported():
    """Returns the actions that the simulator supports."""
    return [
        "AttachVolume", "CopyVolumes", "CreateSnapshot", "CreateTags", "CreateVolume", "DeleteSnapshot", "DeleteTags",
        "DeleteVolume", "DescribeAvailabilityZones", "DescribeFastSnapshotRestores", "DescribeInstanceTypes",
        "DescribeInstances", "DescribeLockedSnapshots", "DescribeSnapshots", "DescribeTags", "DescribeVolumeStatus",
        "DescribeVolumes", "DescribeVolumesModifications", "DetachVolume",
        "DisableFastSnapshotRestores", "EnableFastSnapshotRestores", "LockSnapshot", "ModifyVolume", "RunInstances", "StartInstances", "StopInstances", "TerminateInstances", "UnlockSnapshot",
    ]


def sample(shape, depth=0):
    """Returns a value that passes botocore's validation."""
    kind = shape.type_name
    if kind == "structure":
        return {name: sample(member, depth + 1) for name, member in shape.members.items()} if depth < 6 else {}
    if kind == "list":
        return [sample(shape.member, depth + 1)]
    if kind == "string":
        return shape.enum[0] if getattr(shape, "enum", None) else "x"
    if kind in ("integer", "long"):
        return max(5, shape.metadata.get("min", 5))
    return {"boolean": False, "timestamp": now(), "float": 1.0, "double": 1.0, "blob": b"x"}[kind]


def rates_are_limited():
    """Requires a simulator with realistic timing, which also has EC2's rate limits."""
    put("/timing", dict.fromkeys(["create_ms", "snapshot_ms", "modify_ms", "optimize_ms"], 0))
    it = volume(Size=1)
    EC2.create_snapshot(VolumeId=it)
    refused("SnapshotCreationPerVolumeRateExceeded", EC2.create_snapshot, VolumeId=it)
    for size in (2, 3, 4, 5):
        EC2.modify_volume(VolumeId=it, Size=size)
        until("modified", lambda: modification(it)["ModificationState"] == "completed")
    refused("VolumeModificationRateExceeded", EC2.modify_volume, VolumeId=it, Size=6)

    def code_of_a_list(_):
        try:
            EC2.describe_volumes()
        except botocore.exceptions.ClientError as error:
            equal(error.response["ResponseMetadata"]["HTTPStatusCode"], 503, "status of a throttle")
            return error.response["Error"]["Code"]
        return "ok"

    with concurrent.futures.ThreadPoolExecutor(20) as threads:
        codes = collections.Counter(threads.map(code_of_a_list, range(200)))
    expect(set(codes) == {"ok", "RequestLimitExceeded"} and codes["ok"] >= 50, f"200 lists at once: {codes}")
    # A client that retries like the SDKs succeeds.
    patient = boto3.client("ec2", config=botocore.config.Config(retries={"mode": "standard", "max_attempts": 10}))
    expect(any(v["VolumeId"] == it for v in patient.describe_volumes()["Volumes"]), "the volume is not listed")


def a_lost_reply_does_not_make_a_second_volume():
    config = botocore.config.Config(retries={"mode": "standard", "max_attempts": 5})
    patient = boto3.client("ec2", config=config)
    before = ledger_end()
    with fault({"kind": "lose-reply"}, "CreateVolume", times=2):
        made = patient.create_volume(AvailabilityZone=ZONE, Size=1, TagSpecifications=tagged("volume", lost="reply"))
    equal(len([entry for entry in ledger(before) if entry["action"] == "CreateVolume"]), 3, "tries")
    equal(found(tag__lost=["reply"]), {made["VolumeId"]}, "volumes after two lost replies")


def what_ec2_is_short_of_is_said_in_its_codes():
    create = {"AvailabilityZone": ZONE, "Size": 1}
    for code, status in (("InsufficientVolumeCapacity", 500), ("InternalError", 500), ("Unavailable", 503),
                         ("VolumeLimitExceeded", 400), ("MaxIOPSLimitExceeded", 400), ("RequestLimitExceeded", 503)):
        with fault({"kind": "error", "code": code, "status": status}, "CreateVolume"):
            refused(code, EC2.create_volume, status=status, **create)


def what_was_just_made_may_not_be_seen_yet():
    with fault({"kind": "stale", "lag_ms": 15_000}, "DescribeVolumes"):
        made = EC2.create_volume(AvailabilityZone=ZONE, Size=1, TagSpecifications=tagged("volume", seen="late"))
        refused("InvalidVolume.NotFound", EC2.describe_volumes, VolumeIds=[made["VolumeId"]])
        equal(found(tag__seen=["late"]), set(), "volumes that are seen at once")
    equal(found(tag__seen=["late"]), {made["VolumeId"]}, "volumes that are seen in the end")


def a_burnt_token_is_good_again_after_twelve_hours():
    """The last scene, because afterwards the simulator's clock is ahead of ours."""
    ask = {"AvailabilityZone": ZONE, "Size": 1, "ClientToken": "boto3-burnt"}
    first = EC2.create_volume(**ask)["VolumeId"]
    wait("volume_available", VolumeIds=[first])
    gone(first)
    refused("IdempotentParameterMismatch", EC2.create_volume, **ask)
    send("POST", "/advance", {"ms": (12 * 3600 + 60) * 1000})
    expect(EC2.create_volume(**ask)["VolumeId"] != first, "a volume came back")


SCENES = [
    a_volume_lives_its_life,
    tokens_make_creation_idempotent,
    lists_come_in_pages,
    filters_choose,
    dry_runs_do_nothing,
    errors_of_volumes_have_ec2s_codes,
    errors_of_attachments_have_ec2s_codes,
    an_instance_takes_as_many_volumes_as_its_type,
    io2_volumes_can_be_shared,
    instances_come_and_go,
    volumes_grow_and_change,
    snapshots_are_taken_and_restored,
    fast_restores_are_enabled_by_zone,
    locked_snapshots_stay,
    volumes_are_copied,
    tags_have_rules,
    nodes_of_clusters_have_volumes_too,
    zones_are_listed,
    nobody_gets_in_without_the_secret,
    signed_links_work_until_they_expire,
    a_lost_reply_does_not_make_a_second_volume,
    what_ec2_is_short_of_is_said_in_its_codes,
    what_was_just_made_may_not_be_seen_yet,
    every_parameter_of_the_model_is_known,
    a_burnt_token_is_good_again_after_twelve_hours,
]


def a_policy_is_kept():
    """Requires a simulator that was started with the driver's own policy."""
    create = {"AvailabilityZone": ZONE, "Size": 1}
    ours = tagged("volume", **{"ebs.csi.aws.com/cluster": "true"})
    refused("UnauthorizedOperation", EC2.create_volume, status=403, **create)
    refused("UnauthorizedOperation", EC2.create_volume, status=403, DryRun=True, **create)
    refused("DryRunOperation", EC2.create_volume, status=412, DryRun=True, TagSpecifications=ours, **create)
    it = volume(TagSpecifications=ours)
    EC2.attach_volume(VolumeId=it, InstanceId=INSTANCE, Device="/dev/xvdaa")
    wait("volume_in_use", VolumeIds=[it])
    EC2.detach_volume(VolumeId=it, InstanceId=INSTANCE)
    wait("volume_available", VolumeIds=[it])
    gone(it)
    root = EC2.describe_instances(InstanceIds=[INSTANCE])["Reservations"][0]["Instances"][0]["BlockDeviceMappings"][0]
    refused("UnauthorizedOperation", EC2.create_snapshot, status=403, VolumeId=root["Ebs"]["VolumeId"])
    for call, arguments in (
        (EC2.describe_tags, {}),
        (EC2.terminate_instances, {"InstanceIds": [INSTANCE]}),
        (EC2.run_instances, {"ImageId": "ami-0123456789abcdef0", "MinCount": 1, "MaxCount": 1}),
        (EC2.detach_volume, {"VolumeId": root["Ebs"]["VolumeId"], "InstanceId": INSTANCE}),
    ):
        refused("UnauthorizedOperation", call, status=403, **arguments)


# Run only if named: each needs a simulator that was started for it.
SPECIAL = [
    rates_are_limited,
    a_policy_is_kept,
]


def main(names):
    wanted = [scene for scene in SCENES + SPECIAL if scene.__name__ in names] if names else SCENES
    if len(wanted) < len(names):
        print(f"unknown scenes among {names}", file=sys.stderr)
        return 2
    for scene in wanted:
        began = time.monotonic()
        try:
            scene()
        except Exception as error:  # noqa: BLE001: any error ends the run and is printed
            print(f"FAILED {scene.__name__}: {type(error).__name__}: {error}", file=sys.stderr)
            if not isinstance(error, Violated):
                raise
            return 1
        print(f"ok {scene.__name__} ({time.monotonic() - began:.1f} s)")
    print(f"boto3 {boto3.__version__}: {len(wanted)} scenes, {CHECK.answers} answers held against the model")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

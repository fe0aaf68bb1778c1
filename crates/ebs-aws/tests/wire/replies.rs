//! Replies that EC2 sends, and replies that it never sends or does not send yet. The latter cause a clear error, never
//! a guess.

use std::time::Duration;

use ebs_ec2::{Attachment, Ec2Error, ErrorClass, Instances, LockState, Page, PageRequest, Snapshots, Volume, Volumes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::corpus;
use crate::fixtures::{Objects, call, instance, snap, vol};
use crate::server::{Reply, Wire, client, managed_volumes, settings};

async fn described(body: &str) -> Result<Page<Volume>, Ec2Error> {
    let wire = Wire::answering([Reply::ok(body)]).await;
    wire.ec2.describe_volumes(&managed_volumes(), &PageRequest::default()).await
}

async fn answered(action: &str, reply: Reply, about: &Objects) -> Result<String, Ec2Error> {
    call(&Wire::answering([reply]).await.ec2, action, about).await
}

async fn is_ambiguous(action: &str, body: &str, about: &Objects) -> String {
    let error = answered(action, Reply::ok(body), about).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Ambiguous, "{action}: {error}");
    error.to_string()
}

/// The dates come from EC2's clock.
#[tokio::test]
async fn volume_and_attachment_are_stamped_with_the_reply_date() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (action, date, is_read) in [
        ("CreateVolume", date, true),
        ("CopyVolumes", date, true),
        ("DescribeVolumes", date, true),
        ("AttachVolume", date, true),
        ("DetachVolume", date, true),
        ("AttachVolume", "yesterday", false),
    ] {
        let reply = Reply::SayWith(200, vec![("date", date.to_owned())], corpus::read(action));
        let result = answered(action, reply, &Objects::of_corpus()).await.unwrap();
        assert_eq!(result.contains("tv_sec: 784111777"), is_read, "{action}: {result}");
        assert_eq!(result.contains("said_at: None"), !is_read || action == "DescribeVolumes", "{action}: {result}");
    }
    let empty = "<DescribeVolumesResponse><volumeSet></volumeSet><nextToken></nextToken></DescribeVolumesResponse>";
    let page = described(empty).await.unwrap();
    assert_eq!((page.items.len(), page.next), (0, None));
}

/// EC2 writes a character that XML excludes, such as a control character in a tag, as a reference. The rest of the
/// reply remains valid. Any other invalid reference makes the reply unreadable.
#[tokio::test]
async fn volume_is_listed_despite_a_character_invalid_in_xml() {
    let body = corpus::read("DescribeVolumes");
    let with = |text: &str| body.replace(">pvc-1<", &format!(">pvc-{text}<"));
    let whole = described(&body).await.unwrap();
    for (reference, text) in [
        ("&#1;", "\u{fffd}"),
        ("&#x1F;&#x0;&#xFFFE;", "\u{fffd}\u{fffd}\u{fffd}"),
        ("&#x110000;", "\u{fffd}"),
        ("&#xD800;&amp;&#10;&#65;", "\u{fffd}&\nA"),
    ] {
        let page = described(&with(reference)).await.unwrap();
        assert_eq!(page.items[0].tags["CSIVolumeName"], format!("pvc-{text}"));
        assert_eq!(page.items[0].tags["note"], whole.items[0].tags["note"]);
        assert_eq!(page.items[1], Volume { attachments: page.items[1].attachments.clone(), ..whole.items[1].clone() });
    }
    for invalid in ["&#x;", "&#;", "&#x1", "&#-1;", "&#99999999999999999999;", "&nothing;", "a\u{1}b"] {
        let error = described(&with(invalid)).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Ambiguous, "{invalid:?}");
    }
}

/// Sends the same reply to a deletion and to a describe. Checks that the client cannot read the reply, and that the
/// outcome of the deletion is unknown.
async fn is_refused(reply: Reply) -> [Ec2Error; 2] {
    let wire = Wire::answering([reply.clone()]).await;
    let deletion = wire.ec2.delete_volume(&vol("vol-1")).await.unwrap_err();
    assert_eq!(deletion.class, ErrorClass::Ambiguous, "{deletion}");
    assert_eq!(wire.requests().len(), 1, "sent once");
    let wire = Wire::answering([reply]).await;
    let description = wire.ec2.describe_volumes(&managed_volumes(), &PageRequest::default()).await.unwrap_err();
    assert!(matches!(description.class, ErrorClass::Ambiguous | ErrorClass::Other), "{description}");
    [deletion, description]
}

#[tokio::test]
async fn non_ec2_reply_is_rejected_with_any_http_status() {
    for body in [
        "",
        " ",
        "OK",
        "{\"Volumes\":[]}",
        "<html><body>Sign in to continue</body></html>",
        "<!DOCTYPE html><html><body><p>Sign in</body></html>",
        "<Response/>",
        "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>",
        "<?xml version=\"1.0\"?>",
        "\u{0}\u{1}\u{2}",
        "<DeleteVolumeResponse><DescribeVolumesResponse><volumeSet/>",
        "<a:DeleteVolumeResponse/><a:DescribeVolumesResponse/>",
    ] {
        for error in is_refused(Reply::ok(body)).await {
            assert!(error.to_string().contains("status 200"), "{body}: {error}");
            assert_eq!(error.to_string().contains("Sign in"), body.contains("Sign in"), "{error}");
        }
    }
    for status in [201, 301, 302, 307, 400, 403, 404, 407, 413, 418, 500, 502, 504] {
        let [deletion, _] = is_refused(Reply::Say(status, "<html>something on the way</html>".into())).await;
        assert!(deletion.to_string().contains(&status.to_string()), "{deletion}");
        assert!(deletion.to_string().contains("something on the way"), "{deletion}");
    }
    is_refused(Reply::Say(204, String::new())).await;
    let [deletion, _] = is_refused(Reply::Say(500, String::new())).await;
    assert!(deletion.to_string().contains("status 500 and no body"), "{deletion}");
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", elsewhere.local_addr().unwrap());
    for status in [301, 302, 307, 308] {
        let [deletion, _] = is_refused(Reply::SayWith(status, vec![("location", url.clone())], String::new())).await;
        assert!(deletion.to_string().contains(&status.to_string()), "{deletion}");
    }
    let nobody = tokio::time::timeout(std::time::Duration::from_millis(50), elsewhere.accept()).await;
    assert!(nobody.is_err(), "the other address was called");
}

/// Deletes a volume and lets `server` answer on the connection after it has received the request. Returns the error of
/// the deletion, and the result of `server`.
async fn refused_by<T>(server: impl AsyncFnOnce(TcpStream) -> T) -> (Ec2Error, T) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ec2 = client(&format!("http://{}", listener.local_addr().unwrap()), settings()).await;
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 8192]).await.unwrap() > 0);
        server(stream).await
    };
    let id = vol("vol-1");
    let (outcome, served) = tokio::join!(ec2.delete_volume(&id), serve);
    (outcome.unwrap_err(), served)
}

/// Answers the only request with these bytes and closes the connection.
async fn cut_after(bytes: &[u8]) -> Ec2Error {
    refused_by(async |mut stream| stream.write_all(bytes).await.unwrap()).await.0
}

#[tokio::test]
async fn connection_cut_inside_a_reply_is_ambiguous() {
    let body = "<DeleteVolumeResponse><return>true</return></DeleteVolumeResponse>";
    let short = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len() + 1);
    let chunked = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n", body.len());
    for bytes in [
        short.as_str(),
        &chunked,
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n",
        "garbage\r\n\r\n",
    ] {
        let error = cut_after(bytes.as_bytes()).await;
        assert_eq!(error.class, ErrorClass::Ambiguous, "{bytes:?}: {error}");
        assert!(error.to_string().contains("EC2 may have executed the call"), "{error}");
    }
}

#[tokio::test]
async fn reply_that_announces_a_large_size_is_not_read() {
    let error = cut_after(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n").await;
    assert_eq!(error.class, ErrorClass::Ambiguous);
    assert!(error.to_string().contains("more than 33554432 bytes"), "{error}");
}

#[tokio::test]
async fn endless_reply_is_aborted_at_the_limit() {
    let server = async |mut stream: TcpStream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
        let mut sent = 0_usize;
        while stream.write_all(&chunk).await.is_ok() {
            sent += 0x10000;
        }
        sent
    };
    let (error, sent) = refused_by(server).await;
    assert_eq!(error.class, ErrorClass::Ambiguous);
    assert!(error.to_string().contains("more than 33554432 bytes"), "{error}");
    assert!(sent < 64 << 20, "{sent} bytes were taken");
}

/// Describes volumes, with a corpus reply in which one passage is replaced.
async fn with(from: &str, to: &str) -> Result<Page<Volume>, Ec2Error> {
    let whole = corpus::read("DescribeVolumes");
    assert!(whole.contains(from), "{from}");
    described(&whole.replacen(from, to, 1)).await
}

#[tokio::test]
async fn invalid_numbers_are_rejected() {
    for number in ["-1", "-2147483648", "0", "4294967296", "99999999999999999999", "4.5", "4e1", "0x4", "", " ", "four"]
    {
        let error = with("<size>100</size>", &format!("<size>{number}</size>")).await.unwrap_err();
        assert!(matches!(error.class, ErrorClass::Other | ErrorClass::Ambiguous), "{number}: {error}");
    }
    for number in ["-3000", "2147483648", "many"] {
        with("<iops>3000</iops>", &format!("<iops>{number}</iops>")).await.unwrap_err();
        with("<throughput>125</throughput>", &format!("<throughput>{number}</throughput>")).await.unwrap_err();
    }
    for word in ["yes", "", "1", "TRUE!"] {
        with("<encrypted>true</encrypted>", &format!("<encrypted>{word}</encrypted>")).await.unwrap_err();
    }
    let time = "<createTime>2026-01-02T03:04:05.678Z</createTime>";
    for moment in ["yesterday", "2026-13-40T99:99:99Z"] {
        with(time, &format!("<createTime>{moment}</createTime>")).await.unwrap_err();
    }
}

/// No missing field gets a default value.
#[tokio::test]
async fn missing_or_invalid_required_field_is_named() {
    for (from, to, word) in [
        ("<item>\n            <volumeId>vol-0aaa1111bbb22222c</volumeId>", "<item>", "volume id"),
        ("<status>available</status>", "", "state"),
        ("<size>100</size>", "", "size"),
        ("<volumeType>gp3</volumeType>", "", "type"),
        ("<encrypted>true</encrypted>", "", "encryption"),
        ("<volumeId>vol-0aaa1111bbb22222c</volumeId>", "<volumeId/>", "volume id"),
        ("<volumeId>vol-0aaa1111bbb22222c</volumeId>", "<volumeId>i-0aaa</volumeId>", "volume id"),
        ("<snapshotId>snap-0123456789abcdef0</snapshotId>", "<snapshotId>???</snapshotId>", "snapshot"),
        ("<key>CSIVolumeName</key>", "", "key of a tag"),
        ("<status>attached</status>", "", "state of an attachment"),
    ] {
        let error = with(from, to).await.unwrap_err();
        assert!(error.to_string().contains(word), "{from}: {error}");
    }
    let error = described("<DescribeVolumesResponse><requestId>r</requestId></DescribeVolumesResponse>").await;
    assert!(error.unwrap_err().to_string().contains("list of volumes"));
}

/// The volume may exist, so the client does not repeat its creation. An attachment without a state never counts as
/// detached.
#[tokio::test]
async fn incomplete_reply_to_a_mutation_is_ambiguous() {
    let about = Objects::of_corpus();
    for (action, from, to, word) in [
        ("CreateVolume", "<volumeId>vol-0aaa1111bbb22222c</volumeId>", "", "volume id"),
        ("CreateVolume", "<size>100</size>", "", "size"),
        ("CreateVolume", "<size>100</size>", "<size>0</size>", "size of vol-0aaa1111bbb22222c is 0"),
        ("CreateVolume", "<status>creating</status>", "", "state"),
        ("CreateVolume", "<volumeType>gp3</volumeType>", "", "type"),
        ("CreateVolume", "<encrypted>false</encrypted>", "", "encryption"),
        ("AttachVolume", "<status>attaching</status>", "", "state"),
    ] {
        let body = corpus::read(action);
        assert!(body.contains(from), "{from}");
        let message = is_ambiguous(action, &body.replacen(from, to, 1), &about).await;
        assert!(message.contains(word), "{message}");
    }
    is_ambiguous("ModifyVolume", "<ModifyVolumeResponse/>", &about).await;
    let copied = corpus::read("CopyVolumes");
    let (head, item) = copied.split_once("<item>").unwrap();
    let (item, tail) = item.split_once("</item>").unwrap();
    is_ambiguous("CopyVolumes", &format!("{head}{tail}"), &about).await;
    is_ambiguous("CopyVolumes", &format!("{head}<item>{item}</item><item>{item}</item>{tail}"), &about).await;
}

#[tokio::test]
async fn attachment_may_lack_the_instance_but_not_the_volume() {
    for no_instance in ["", "<instanceId/>"] {
        let page = with("<instanceId>i-0123456789abcdef0</instanceId>", no_instance).await.unwrap();
        assert_eq!(page.items[1].attachments[0].instance, None);
    }
    let whole = corpus::read("DescribeVolumes");
    let (head, tail) = whole.split_once("<attachmentSet>\n                <item>").unwrap();
    let tail = tail.replacen("vol-0ddd3333eee44444f", "vol-0aaa1111bbb22222c", 1);
    let error = described(&format!("{head}<attachmentSet><item>{tail}")).await.unwrap_err();
    assert!(error.to_string().contains("which was not requested"), "{error}");
}

/// The name of the associated resource ends with the instance id. A resource of another service is not a node.
#[tokio::test]
async fn hyperpod_instance_is_parsed_from_associated_resource() {
    let arn = "arn:aws:sagemaker:us-west-2:123456789012:cluster/my-cluster-i-0abc";
    let node = format!(
        "<associatedResource>{arn}</associatedResource><instanceOwningService>sagemaker</instanceOwningService>"
    );
    let page = with("<instanceId>i-0123456789abcdef0</instanceId>", &node).await.unwrap();
    let attachment = &page.items[1].attachments[0];
    assert_eq!((attachment.instance.as_ref(), attachment.associated_resource.as_deref()), (None, Some(arn)));
    assert_eq!(attachment.cluster_node(), Some(instance("i-0abc")));
    for other in ["arn:aws:ecs:us-west-2:1:task/c/0123", "", "i", "-", "i-", "cluster/i-0abc", "a-j-0abc", "a-i-0ABC"] {
        let attachment = Attachment { associated_resource: Some(other.to_owned()), ..attachment.clone() };
        assert_eq!(attachment.cluster_node(), None, "{other}");
    }
}

#[tokio::test]
async fn unknown_states_types_and_elements_are_accepted() {
    let new = "<volumeType>gp33</volumeType><hologram><item><volumeId>vol-7</volumeId></item></hologram>";
    for (action, from, to, read) in [
        ("DescribeVolumes", "<status>available</status>", "<status>avail</status>", "state: Other(\"avail\")"),
        ("DescribeVolumes", "<status>attached</status>", "<status>Detached</status>", "state: Other(\"Detached\")"),
        ("DescribeVolumes", "<volumeType>gp3</volumeType>", new, "volume_type: Other(\"gp33\")"),
        ("DescribeSnapshots", ">pending<", ">recovering<", "state: Other(\"recovering\")"),
        ("DescribeVolumesModifications", ">optimizing<", ">dreaming<", "state: Other(\"dreaming\")"),
        ("DescribeLockedSnapshots", ">compliance-cooloff<", ">new<", "state: Other(\"new\")"),
    ] {
        let body = corpus::read(action).replacen(from, to, 1);
        let result = answered(action, Reply::ok(body), &Objects::of_corpus()).await.unwrap();
        assert!(result.contains(read), "{action}: {result}");
    }
}

#[tokio::test]
async fn instance_type_has_one_card_unless_ec2_reports_more() {
    let item = "<instanceTypeSet><item><instanceType>m5.large</instanceType></item></instanceTypeSet>";
    let reply = Reply::ok(format!("<DescribeInstanceTypesResponse>{item}</DescribeInstanceTypesResponse>"));
    let found = Wire::answering([reply]).await.ec2.describe_instance_type("m5.large").await.unwrap();
    assert_eq!(found.unwrap().ebs_cards, 1);
}

#[tokio::test]
async fn initialization_and_estimate_are_read_from_volume_status() {
    let body = corpus::read("DescribeVolumeStatus");
    let status = async |body: String| {
        let wire = Wire::answering([Reply::ok(body)]).await;
        let volumes = &Objects::of_corpus().volumes[..1];
        Ok::<_, Ec2Error>(wire.ec2.describe_volume_status(volumes, &PageRequest::default()).await?.items.remove(0))
    };
    let whole = status(body.clone()).await.unwrap();
    assert_eq!((whole.initializing(), whole.estimate), (Some(true), Some(Duration::from_secs(300))));
    let done = status(body.replace("<status>initializing<", "<status>completed<")).await.unwrap();
    assert_eq!(done.initializing(), Some(false));
    let (head, tail) = body.split_once("<details>").unwrap();
    let (_, tail) = tail.split_once("</details>").unwrap();
    assert_eq!(status(format!("{head}{tail}")).await.unwrap().initializing(), None, "without details");
    let negative = status(body.replace(">300<", ">-300<")).await.unwrap_err();
    assert!(negative.to_string().contains("estimate is -300 s"), "{negative}");
}

#[tokio::test]
async fn lock_is_described_with_its_mode_if_it_exists() {
    let snapshot = Objects::of_corpus().snapshot;
    let body = corpus::read("DescribeLockedSnapshots");
    let described =
        async |body: String| Wire::answering([Reply::ok(body)]).await.ec2.describe_lock(&snapshot).await.unwrap();
    for (word, state) in [
        ("governance", LockState::Governance),
        ("compliance", LockState::Compliance),
        ("compliance-cooloff", LockState::ComplianceCoolOff),
        ("expired", LockState::Expired),
    ] {
        let body = body.replace(">compliance-cooloff<", &format!(">{word}<"));
        assert_eq!(described(body).await.unwrap().state, state);
    }
    let (head, rest) = body.split_once("<item>").unwrap();
    let (_, tail) = rest.split_once("</item>").unwrap();
    assert_eq!(described(format!("{head}{tail}")).await, None);
}

#[tokio::test]
async fn reply_about_another_object_is_an_error() {
    let strange = Objects::strange();
    for action in [
        "DescribeVolumes",
        "DescribeVolumesModifications",
        "DescribeVolumeStatus",
        "DescribeInstances",
        "DescribeSnapshots",
        "DescribeLockedSnapshots",
    ] {
        answered(action, Reply::ok(corpus::read(action)), &strange).await.unwrap_err();
    }
    let types = Wire::answering([Reply::ok(corpus::read("DescribeInstanceTypes"))]).await;
    types.ec2.describe_instance_type("x9.huge").await.unwrap_err();
    for action in ["AttachVolume", "DetachVolume", "ModifyVolume", "CreateSnapshot"] {
        let message = is_ambiguous(action, &corpus::read(action), &strange).await;
        assert!(message.contains("it describes"), "{message}");
    }
    for action in ["EnableFastSnapshotRestores", "LockSnapshot"] {
        is_ambiguous(action, &corpus::read(action), &strange).await;
    }
    let wire = Wire::answering([Reply::ok(corpus::read("LockSnapshot"))]).await;
    wire.ec2.lock_snapshot(&crate::fixtures::lock(&snap("snap-0123456789abcdef0"))).await.unwrap();
}

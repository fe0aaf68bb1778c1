//! Replies that EC2 does not send, or not yet, are a clear error and never a guess.

use std::sync::Arc;

use ebs_ec2::{
    AttachRequest, AttachmentState, Attachments, CreateSnapshot, DetachRequest, DeviceName, Ec2Error, ErrorClass, Gib,
    InstanceId, Instances, ModificationState, ModifyVolume, Page, PageRequest, SnapshotId, SnapshotQuery, Snapshots,
    Tags, Volume, VolumeId, VolumeQuery, VolumeState, VolumeType, Volumes,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::corpus;
use crate::server::{Reply, Seen, Wire, config, settings};

fn vol(id: &str) -> VolumeId {
    VolumeId::parse(id).unwrap()
}

async fn described(body: &str) -> Result<Page<Volume>, Ec2Error> {
    let wire = Wire::answering([Reply::ok(body)]).await;
    wire.ec2.describe_volumes(&crate::server::managed_volumes(), &PageRequest::default()).await
}

/// Sends the same reply to a deletion and to a describe. It is unreadable, and the outcome of the deletion is unknown.
async fn is_refused(reply: Reply) -> [Ec2Error; 2] {
    let wire = Wire::answering([reply.clone()]).await;
    let deletion = wire.ec2.delete_volume(&vol("vol-1")).await.unwrap_err();
    assert_eq!(deletion.class, ErrorClass::Ambiguous, "{deletion}");
    assert_eq!(wire.requests().len(), 1, "sent once");
    let wire = Wire::answering([reply]).await;
    let description =
        wire.ec2.describe_volumes(&crate::server::managed_volumes(), &PageRequest::default()).await.unwrap_err();
    assert!(matches!(description.class, ErrorClass::Ambiguous | ErrorClass::Other), "{description}");
    [deletion, description]
}

/// EC2 writes a character that XML excludes, such as a control character in a tag, as a reference. The rest of the
/// reply stays valid.
#[tokio::test]
async fn character_that_xml_excludes_hides_no_volume() {
    let body = corpus::read("describe_volumes");
    let whole = described(&body).await.unwrap();
    for (reference, text) in [
        ("&#x1;", "\u{fffd}"),
        ("&#1;", "\u{fffd}"),
        ("&#xFFFE;", "\u{fffd}"),
        ("&#x110000;", "\u{fffd}"),
        ("&#x41;", "A"),
    ] {
        let page = described(&body.replace(">pvc-1<", &format!(">pvc-{reference}<"))).await.unwrap();
        assert_eq!(page.items.len(), whole.items.len());
        assert_eq!(page.items[0].tags["CSIVolumeName"], format!("pvc-{text}"));
        assert_eq!(page.items[0].tags["note"], whole.items[0].tags["note"]);
        assert_eq!(page.items[1].id, whole.items[1].id);
    }
    for no_reference in ["&#x;", "&#;", "&#x1", "&#-1;", "&#99999999999999999999;"] {
        let read = described(&body.replace(">pvc-1<", &format!(">pvc-{no_reference}<"))).await;
        assert!(read.is_err(), "{no_reference}: {read:?}");
    }
}

/// Such replies are pages of proxies, redirects, JSON and other documents. After a mutating call, the outcome is
/// unknown.
#[tokio::test]
async fn reply_that_is_not_from_ec2_is_rejected_with_any_status() {
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
        }
    }
    for status in [201, 204, 301, 302, 307, 400, 404, 407, 413, 418, 500, 502, 504] {
        is_refused(Reply::Say(status, "<html>something on the way</html>".into())).await;
    }
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

#[tokio::test]
async fn truncated_reply_is_never_accepted_as_complete() {
    let whole = corpus::read("describe_volumes");
    assert_eq!(described(&whole).await.unwrap().items.len(), 2);
    for at in whole.match_indices('<').map(|(at, _)| at).chain([whole.trim_end().len() - 1]) {
        let error = described(&whole[..at]).await.unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}

/// Answers the only request with these bytes and closes the connection.
async fn cut_after(bytes: &[u8]) -> Ec2Error {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let ec2 = ebs_aws::AwsEc2::connect_with(&config(&endpoint), settings(), Arc::new(Seen::default())).await.unwrap();
    let server = async {
        let mut stream = request_on(&listener).await;
        stream.write_all(bytes).await.unwrap();
    };
    let id = vol("vol-1");
    let (outcome, ()) = tokio::join!(ec2.delete_volume(&id), server);
    outcome.unwrap_err()
}

/// Accepts a connection on which most of a request has arrived.
async fn request_on(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut buffer = [0; 8192];
    assert!(stream.read(&mut buffer).await.unwrap() > 0);
    stream
}

#[tokio::test]
async fn connection_cut_inside_a_reply_leaves_it_unknown() {
    let body = "<DeleteVolumeResponse><return>true</return></DeleteVolumeResponse>";
    let short = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len() + 1);
    let chunked = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n", body.len());
    for bytes in
        [short.as_str(), &chunked, "HTTP/1.1 200", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "garbage\r\n\r\n"]
    {
        let error = cut_after(bytes.as_bytes()).await;
        assert_eq!(error.class, ErrorClass::Ambiguous, "{bytes:?}: {error}");
        assert!(error.to_string().contains("EC2 may have executed the call"), "{error}");
    }
}

/// The limit is 32 MiB.
#[tokio::test]
async fn reply_that_announces_a_large_size_is_not_read() {
    let error = cut_after(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n").await;
    assert_eq!(error.class, ErrorClass::Ambiguous);
    assert!(error.to_string().contains("more than 33554432 bytes"), "{error}");
}

#[tokio::test]
async fn endless_reply_is_aborted_at_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let ec2 = ebs_aws::AwsEc2::connect_with(&config(&endpoint), settings(), Arc::new(Seen::default())).await.unwrap();
    let server = async {
        let mut stream = request_on(&listener).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
        let mut sent = 0_usize;
        while stream.write_all(&chunk).await.is_ok() {
            sent += 0x10000;
        }
        sent
    };
    let id = vol("vol-1");
    let (outcome, sent) = tokio::join!(ec2.delete_volume(&id), server);
    let error = outcome.unwrap_err();
    assert_eq!(error.class, ErrorClass::Ambiguous);
    assert!(error.to_string().contains("more than 33554432 bytes"), "{error}");
    assert!(sent < 64 << 20, "{sent} bytes were taken");
}

/// Describes with the corpus reply, in which one passage is replaced.
async fn with(from: &str, to: &str) -> Result<Page<Volume>, Ec2Error> {
    let whole = corpus::read("describe_volumes");
    assert!(whole.contains(from), "{from}");
    described(&whole.replacen(from, to, 1)).await
}

/// The same applies to booleans and times.
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

/// No missing field gets a default.
#[tokio::test]
async fn missing_required_field_is_named() {
    for (from, to, word) in [
        ("<item>\n            <volumeId>vol-0aaa1111bbb22222c</volumeId>", "<item>", "volume id"),
        ("<status>available</status>", "", "state"),
        ("<size>100</size>", "", "size"),
        ("<volumeType>gp3</volumeType>", "", "type"),
        ("<encrypted>true</encrypted>", "", "encryption"),
        ("<volumeId>vol-0aaa1111bbb22222c</volumeId>", "<volumeId/>", "volume id"),
        ("<volumeId>vol-0aaa1111bbb22222c</volumeId>", "<volumeId>i-0aaa</volumeId>", "volume id"),
        ("<key>CSIVolumeName</key>", "", "key of a tag"),
        ("<status>attached</status>", "", "state of an attachment"),
    ] {
        let error = with(from, to).await.unwrap_err();
        assert!(error.to_string().contains(word), "{from}: {error}");
    }
    let error = described("<DescribeVolumesResponse><requestId>r</requestId></DescribeVolumesResponse>").await;
    assert!(error.unwrap_err().to_string().contains("list of volumes"));
}

#[tokio::test]
async fn attachment_needs_no_instance_but_the_right_volume() {
    let page = with("<instanceId>i-0123456789abcdef0</instanceId>", "").await.unwrap();
    assert_eq!(page.items[1].attachments[0].instance, None);
    let whole = corpus::read("describe_volumes");
    let (head, tail) = whole.split_once("<attachmentSet>\n                <item>").unwrap();
    let tail = tail.replacen("vol-0ddd3333eee44444f", "vol-0aaa1111bbb22222c", 1);
    let error = described(&format!("{head}<attachmentSet><item>{tail}")).await.unwrap_err();
    assert!(error.to_string().contains("which was not requested"), "{error}");
}

/// Unknown elements are ignored.
#[tokio::test]
async fn unknown_states_and_types_are_kept_unchanged() {
    let page = with("<status>available</status>", "<status>avail</status>").await.unwrap();
    assert_eq!(page.items[0].state, VolumeState::Other("avail".into()));
    let page = with("<status>attached</status>", "<status>Detached</status>").await.unwrap();
    assert_eq!(page.items[1].attachments[0].state, AttachmentState::Other("Detached".into()));
    let page = with("<volumeType>gp3</volumeType>", "<volumeType>gp33</volumeType>").await.unwrap();
    assert_eq!(page.items[0].volume_type, VolumeType::Other("gp33".into()));
    let new = "<volumeType>gp3</volumeType><hologram><item><volumeId>vol-7</volumeId></item></hologram>";
    let page = with("<volumeType>gp3</volumeType>", new).await.unwrap();
    assert_eq!(page.items[0].id, vol("vol-0aaa1111bbb22222c"), "unknown elements are ignored");
    let body = corpus::read("describe_volumes_modifications").replace(">optimizing<", ">daydreaming<");
    let wire = Wire::answering([Reply::ok(body)]).await;
    let volumes = [vol("vol-0aaa1111bbb22222c")];
    let page = wire.ec2.describe_modifications(&volumes, &PageRequest::default()).await.unwrap();
    assert_eq!(page.items[0].state, ModificationState::Other("daydreaming".into()));
}

#[tokio::test]
async fn reply_about_another_object_is_an_error() {
    let none = PageRequest::default();
    let strange = |name: &str| Wire::answering([Reply::ok(corpus::read(name))]);
    let ids = vec![vol("vol-1")];

    let wire = strange("describe_volumes").await;
    let error = wire.ec2.describe_volumes(&VolumeQuery::FilterIds(ids.clone()), &none).await.unwrap_err();
    assert!(error.to_string().contains("which was not requested"), "{error}");
    strange("describe_volumes_modifications").await.ec2.describe_modifications(&ids, &none).await.unwrap_err();
    strange("describe_volume_status").await.ec2.describe_volume_status(&ids, &none).await.unwrap_err();
    let other = InstanceId::parse("i-1").unwrap();
    let listed = strange("describe_instances").await.ec2.describe_instances(std::slice::from_ref(&other), &none).await;
    listed.unwrap_err();
    let query = SnapshotQuery::FilterIds(vec![SnapshotId::parse("snap-1").unwrap()]);
    strange("describe_snapshots").await.ec2.describe_snapshots(&query, &none).await.unwrap_err();
    strange("describe_instance_types").await.ec2.describe_instance_type("x9.huge").await.unwrap_err();

    // After a mutating call, the outcome is unknown.
    let device = DeviceName::new("/dev/xvdaa");
    let attach = AttachRequest { volume: vol("vol-1"), instance: other.clone(), device, card: None };
    let detach = DetachRequest { volume: vol("vol-1"), instance: other };
    let modify =
        ModifyVolume { volume: vol("vol-1"), size: Some(Gib(2)), volume_type: None, iops: None, throughput: None };
    let snapshot =
        CreateSnapshot { volume: vol("vol-1"), description: "d".into(), outpost_arn: None, tags: Tags::new() };
    for error in [
        strange("attach_volume").await.ec2.attach_volume(&attach).await.unwrap_err(),
        strange("detach_volume").await.ec2.detach_volume(&detach).await.unwrap_err(),
        strange("modify_volume").await.ec2.modify_volume(&modify).await.unwrap_err(),
        strange("create_snapshot").await.ec2.create_snapshot(&snapshot).await.unwrap_err(),
    ] {
        assert_eq!(error.class, ErrorClass::Ambiguous, "{error}");
        assert!(error.to_string().contains("it describes"), "{error}");
    }
}

//! Tests a controller with temporary AWS credentials: the source replaces them, and EC2 rejects expired ones.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use ebs_testkit::control::Control;
use ebs_testkit::csi_client::{Access, new_volume};
use ebs_testkit::world::World;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const BOUND: Duration = Duration::from_secs(120);
/// The lifetime of a key that is replaced while the test runs. The SDK replaces a key 10 s to 15 s before it expires.
const SHORT: Duration = Duration::from_secs(17);
const HOUR: Duration = Duration::from_hours(1);

/// A protocol of temporary credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// The pod identity agent of EKS.
    PodIdentity,
    /// STS, which takes the web identity token of a service account.
    WebIdentity,
}

/// What the source returns for the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// A new key with this lifetime.
    NewKey(Duration),
    /// The previous key, which has expired.
    ExpiredKey,
    /// A rejection.
    Rejection,
}

#[derive(Debug)]
struct Issuer {
    protocol: Protocol,
    next: Next,
    /// The number of the latest key, which is also the number of the only valid token.
    key: u32,
    /// The number of the key that EC2 accepts.
    valid: u32,
    requests: u32,
    token_file: PathBuf,
}

/// A source of credentials in this process. With each new key, it replaces the token in the file, and EC2 rejects the
/// previous key.
struct Source {
    url: String,
    issuer: Arc<Mutex<Issuer>>,
    _serving: JoinSet<()>,
}

fn key_id(number: u32) -> String {
    format!("ASIAMADEUP{number:06}")
}

/// Returns a part of the key with this number, such as its secret.
fn part(what: &str, number: u32) -> String {
    format!("made-up-{what}-{number}")
}

/// Returns the protocol's reply with a key.
fn reply(protocol: Protocol, number: u32, expires: SystemTime) -> String {
    let (id, secret, session) = (key_id(number), part("secret", number), part("session", number));
    let expires = humantime::format_rfc3339_seconds(expires);
    match protocol {
        Protocol::PodIdentity => format!(
            "{{\"AccessKeyId\":\"{id}\",\"SecretAccessKey\":\"{secret}\",\"Token\":\"{session}\",\
             \"Expiration\":\"{expires}\"}}"
        ),
        Protocol::WebIdentity => format!(
            "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
             <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{id}</AccessKeyId>\
             <SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{session}</SessionToken>\
             <Expiration>{expires}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>\
             </AssumeRoleWithWebIdentityResponse>"
        ),
    }
}

impl Issuer {
    /// Returns the reply to a request with this token.
    fn answer(&mut self, token: &str) -> std::io::Result<(StatusCode, String)> {
        self.requests += 1;
        let rejection = "<ErrorResponse><Error><Type>Sender</Type><Code>ExpiredTokenException</Code>\
                         <Message>made up</Message></Error><RequestId>r</RequestId></ErrorResponse>";
        if self.next == Next::Rejection || token != part("token", self.key) {
            return Ok((StatusCode::BAD_REQUEST, rejection.to_owned()));
        }
        let now = SystemTime::now();
        let expires = match self.next {
            Next::NewKey(life) => {
                self.key += 1;
                std::fs::write(&self.token_file, part("token", self.key))?;
                now + life
            }
            _ => now - HOUR,
        };
        Ok((StatusCode::OK, reply(self.protocol, self.key, expires)))
    }
}

impl Source {
    async fn start(protocol: Protocol, dir: &Path, control: Control) -> anyhow::Result<Self> {
        let token_file = dir.join("token");
        std::fs::write(&token_file, part("token", 0))?;
        let issuer = Issuer { protocol, next: Next::NewKey(SHORT), key: 0, valid: 0, requests: 0, token_file };
        let issuer = Arc::new(Mutex::new(issuer));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::clone(&issuer);
        let app = Router::new().fallback(move |headers: HeaderMap, body: String| {
            let (issuer, control) = (Arc::clone(&shared), control.clone());
            async move {
                let header = headers.get("authorization").and_then(|value| value.to_str().ok());
                let field = body.split('&').find_map(|field| field.strip_prefix("WebIdentityToken="));
                let answer = lock(&issuer).answer(header.or(field).unwrap_or_default());
                match make_valid(&issuer, &control).await.and(answer.map_err(Into::into)) {
                    Ok(answer) => answer,
                    Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")),
                }
            }
        });
        let mut serving = JoinSet::new();
        serving.spawn(async move { drop(axum::serve(listener, app).await) });
        Ok(Self { url, issuer, _serving: serving })
    }

    fn set_next(&self, next: Next) {
        lock(&self.issuer).next = next;
    }

    fn requests(&self) -> u32 {
        lock(&self.issuer).requests
    }
}

/// Makes EC2 accept the latest key if it is new, and reject the previous one.
async fn make_valid(issuer: &Mutex<Issuer>, control: &Control) -> anyhow::Result<()> {
    let key = lock(issuer).key;
    if lock(issuer).valid != key {
        control.set_access_key(&key_id(key), &part("secret", key), &part("session", key)).await?;
        lock(issuer).valid = key;
    }
    Ok(())
}

fn lock(issuer: &Mutex<Issuer>) -> MutexGuard<'_, Issuer> {
    issuer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a controller whose credentials come from a source with the protocol.
async fn controller(protocol: Protocol) -> anyhow::Result<(World, Source, tempfile::TempDir)> {
    let dir = tempfile::tempdir()?;
    let mut world = World::builder(DRIVER).mode("controller").start_without_driver().await?;
    let source = Source::start(protocol, dir.path(), world.control().clone()).await?;
    let token_file = dir.path().join("token").display().to_string();
    let variables = match protocol {
        Protocol::PodIdentity => vec![
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/v1/credentials", source.url)),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token_file),
        ],
        Protocol::WebIdentity => vec![
            ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/made-up".to_owned()),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", token_file),
            ("AWS_ENDPOINT_URL_STS", source.url.clone()),
        ],
    };
    let env = world.driver_env();
    for key in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        env.remove(key);
    }
    env.extend(variables.into_iter().map(|(name, value)| (name.to_owned(), value)));
    world.start_driver().await?;
    Ok((world, source, dir))
}

/// Creates a volume and deletes it.
async fn volume_life(world: &World) -> Result<(), Status> {
    let volume = world.client().create_volume(new_volume("pvc-1", 1, &Access::Block)).await?;
    world.client().delete_volume(&volume.volume_id).await
}

/// Returns the keys of the EC2 calls that succeeded.
async fn keys_in_use(world: &World) -> anyhow::Result<BTreeSet<String>> {
    let calls = world.calls_since(0).await?.calls.into_iter().filter(|call| call.outcome == "ok");
    Ok(calls.filter_map(|call| call.access_key).collect())
}

/// Every call succeeds, although the keys and the token in the file are replaced. EC2 rejects the replaced keys.
#[tokio::test]
async fn no_call_fails_while_temporary_keys_are_replaced() -> anyhow::Result<()> {
    for protocol in [Protocol::PodIdentity, Protocol::WebIdentity] {
        let (world, source, _dir) = controller(protocol).await?;
        let (end, mut calls) = (Instant::now() + BOUND, 0);
        while keys_in_use(&world).await?.len() < 3 {
            ensure!(Instant::now() < end, "{protocol:?}: the controller used {:?}", keys_in_use(&world).await?);
            volume_life(&world).await.with_context(|| format!("{protocol:?}, request {}", source.requests()))?;
            calls += 2;
            sleep(Duration::from_millis(100)).await;
        }
        ensure!(source.requests() < calls, "{protocol:?}: {} requests for {calls} calls", source.requests());
        world.finish().await?;
    }
    Ok(())
}

/// The source first returns only the expired key, and then rejects the controller. The controller does not end, and it
/// works again with the next valid key. A creation is Aborted, which is not final: without valid keys, the controller
/// cannot check whether an earlier attempt created the volume.
#[tokio::test]
async fn expired_keys_are_unauthenticated_until_replaced() -> anyhow::Result<()> {
    for protocol in [Protocol::PodIdentity, Protocol::WebIdentity] {
        let (world, source, _dir) = controller(protocol).await?;
        let client = world.client();
        let kept = client.create_volume(new_volume("pvc-kept", 1, &Access::Block)).await?.volume_id;
        source.set_next(Next::ExpiredKey);
        // EC2 accepts none of the source's keys any more.
        world.control().set_access_key("ASIAANOTHER", "another", "another").await?;
        let end = Instant::now() + BOUND;
        for next in [Next::ExpiredKey, Next::Rejection] {
            source.set_next(next);
            let before = source.requests();
            while source.requests() < before + 2 {
                ensure!(Instant::now() < end, "{protocol:?}, {next:?}: the controller requested no new key");
                let error = client.delete_volume(&kept).await.err().context("no key is valid")?;
                ensure!(error.code() == Code::Unauthenticated, "{protocol:?}, {next:?}: {error:?}");
                let error = volume_life(&world).await.err().context("no key is valid")?;
                let is_named = error.message().contains("credentials") || error.message().contains("RequestExpired");
                ensure!(
                    [Code::Unauthenticated, Code::Aborted].contains(&error.code()) && is_named,
                    "{protocol:?}, {next:?}: {error:?}"
                );
                sleep(Duration::from_millis(100)).await;
            }
        }
        source.set_next(Next::NewKey(HOUR));
        volume_life(&world).await.with_context(|| format!("{protocol:?}: with a new key"))?;
        client.delete_volume(&kept).await?;
        world.finish().await?;
    }
    Ok(())
}

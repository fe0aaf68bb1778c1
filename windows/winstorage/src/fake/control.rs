//! Controls a fake machine in another process. A test changes and reads the machine while the program under test runs.
//! The protocol runs over loopback. Each request and each reply is a line of words with spaces between them.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::FakeHost;
use crate::host::{Answer, HostError, Space, SpaceHost};
use crate::types::WinPath;

const PATIENCE: Duration = Duration::from_secs(120);

/// Creates the machine for `--host=fake:FILE` of a test build, and starts to accept requests. The file `FILE.port`
/// contains the port. Errors: the file cannot be read, or is not a valid description of a machine; see also [`listen`].
pub fn described(file: &Path) -> Result<FakeHost, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("read {}: {error}", file.display()))?;
    let host = FakeHost::from_json(&text)?;
    let mut port_file = file.as_os_str().to_owned();
    port_file.push(".port");
    listen(&host, Path::new(&port_file)).map_err(|error| format!("listen for the test: {error}"))?;
    Ok(host)
}

pub fn listen(host: &FakeHost, port_file: &Path) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    std::fs::write(port_file, format!("{}\n", listener.local_addr()?.port()))?;
    let host = host.clone();
    let serve = move || {
        for connection in listener.incoming().flatten() {
            let host = host.clone();
            // If sending a reply fails, the test has ended.
            let answer = move || drop(answer_all(&host, connection));
            if thread::Builder::new().name("control".to_owned()).spawn(answer).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("control".to_owned()).spawn(serve).map(drop)
}

fn answer_all(host: &FakeHost, mut connection: TcpStream) -> io::Result<()> {
    let requests = BufReader::new(connection.try_clone()?);
    for request in requests.lines() {
        let request = request?;
        connection.write_all(format!("{}\n", answer(host, &request)).as_bytes())?;
    }
    Ok(())
}

pub fn answer(host: &FakeHost, request: &str) -> String {
    reply(host, request).unwrap_or_else(|| format!("unknown request: {request}"))
}

fn reply(host: &FakeHost, request: &str) -> Option<String> {
    let (word, rest) = request.split_once(' ')?;
    let mut words = rest.split(' ');
    let number = || rest.split(' ').next()?.parse::<u32>().ok();
    let done = || "done".to_owned();
    Some(match word {
        "attach" => {
            let (number, serial, size) = (words.next()?.parse().ok()?, words.next()?, words.next()?.parse().ok()?);
            host.attach_disk(number, serial, size);
            done()
        }
        "detach" => {
            host.detach_disk(number()?);
            done()
        }
        "resize" => {
            host.set_disk_size(words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            done()
        }
        "online" => host.is_online(number()?).to_string(),
        "formats" => host.volumes_of(number()?).iter().map(|volume| host.formats(volume)).sum::<usize>().to_string(),
        "calls" => host.calls(rest).to_string(),
        "directory" => {
            host.add_directory(rest);
            done()
        }
        "exists" => host.kind_at(rest).is_some().to_string(),
        "space" => match host.space(&WinPath::normalise(rest)?) {
            Ok(Space { available, total, free }) => format!("{available} {total} {free}"),
            Err(HostError { answer: Answer::Win32(code), .. }) => format!("error {code}"),
            Err(_) => return None,
        },
        _ => return None,
    })
}

#[derive(Debug)]
pub struct Remote(Mutex<BufReader<TcpStream>>);

impl Remote {
    pub fn connect(port_file: &Path) -> io::Result<Self> {
        let port = std::fs::read_to_string(port_file)?.trim().parse().map_err(io::Error::other)?;
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(Mutex::new(BufReader::new(stream))))
    }

    pub fn ask(&self, request: &str) -> io::Result<String> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.get_mut().write_all(format!("{request}\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_line(&mut answer)?;
        Ok(answer.trim().to_owned())
    }
}

impl SpaceHost for Remote {
    fn space(&self, path: &WinPath) -> Result<Space, HostError> {
        let failed = |what: String| HostError::malformed("space", path, what);
        let answer = self.ask(&format!("space {path}")).map_err(|error| failed(error.to_string()))?;
        if let Some(code) = answer.strip_prefix("error ").and_then(|code| code.parse().ok()) {
            return Err(HostError::win32("space", path, code));
        }
        let numbers: Vec<u64> = answer.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [available, total, free] = numbers[..] else { return Err(failed(answer)) };
        Ok(Space { available, total, free })
    }
}

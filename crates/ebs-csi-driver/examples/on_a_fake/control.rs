//! What a test does with the machine while the driver runs: words with a blank between them in, one line out.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use winstorage::fake::FakeHost;

/// Takes requests from now on; `file` names the port, once it is open.
pub(crate) fn listen(host: &FakeHost, file: &str) -> std::io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    std::fs::write(file, format!("{}\n", listener.local_addr()?.port()))?;
    let host = host.clone();
    let serve = move || {
        for connection in listener.incoming().flatten() {
            // The test has gone when this fails.
            let _ended = answer_all(&host, connection);
        }
    };
    thread::Builder::new().name("control".to_owned()).spawn(serve).map(drop)
}

fn answer_all(host: &FakeHost, mut connection: TcpStream) -> std::io::Result<()> {
    let requests = BufReader::new(connection.try_clone()?);
    for request in requests.lines() {
        let request = request?;
        let answer = answer(host, &request).unwrap_or_else(|| format!("not understood: {request}"));
        connection.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

fn answer(host: &FakeHost, request: &str) -> Option<String> {
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
        "directory" => {
            host.add_directory(rest);
            done()
        }
        "exists" => host.kind_at(rest).is_some().to_string(),
        _ => return None,
    })
}

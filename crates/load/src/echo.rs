//! A server that does nothing: it reads requests of one size and writes answers of one size, without TLS. What it takes is the floor
//! that the operating system sets for anything that answers over TCP.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::error::LoadError;
use crate::threads::BusyThread;

/// Where a message of either direction carries an id below 128: behind the array's head and the type.
const ID_PLACE: usize = 2;
/// The least bytes of an answer: its head up to the length of what it holds.
const ANSWER_SIZE_MIN: usize = 9;

/// A running server; its threads end with the process.
pub struct Echo {
    /// Where it listens, on 127.0.0.1.
    pub address: SocketAddr,
    _busy: Vec<BusyThread>,
}

impl Echo {
    /// Listens from now on, and keeps `busy` threads computing beside it. All messages have these sizes, their id, below 128, included.
    ///
    /// # Errors
    /// No port, no threads.
    pub fn start(request_size: usize, answer_size: usize, busy: usize) -> Result<Self, LoadError> {
        let system = |error| LoadError::system("the echo server", error);
        let listener = TcpListener::bind("127.0.0.1:0").map_err(system)?;
        let address = listener.local_addr().map_err(system)?;
        let accept = move || {
            for stream in listener.incoming().flatten() {
                // One thread for each of the few connections that it is made for; a connection that breaks ends alone.
                std::thread::spawn(move || drop(serve(stream, request_size, answer_size)));
            }
        };
        std::thread::Builder::new().name("echo".to_owned()).spawn(accept).map_err(system)?;
        Ok(Echo { address, _busy: (0..busy).map(|_| BusyThread::start()).collect::<Result<_, _>>()? })
    }
}

fn serve(mut stream: TcpStream, request_size: usize, answer_size: usize) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = vec![0; request_size.max(ID_PLACE + 1)];
    let mut answer = answer(answer_size);
    loop {
        stream.read_exact(&mut request)?;
        answer[ID_PLACE] = request[ID_PLACE];
        stream.write_all(&answer)?;
    }
}

/// `[1, id, nil, binary]`, of `size` bytes in all.
fn answer(size: usize) -> Vec<u8> {
    let content = size.saturating_sub(ANSWER_SIZE_MIN);
    let mut answer = vec![0x94, 1, 0, 0xc0, 0xc6];
    answer.extend_from_slice(&u32::try_from(content).unwrap_or(u32::MAX).to_be_bytes());
    answer.resize(ANSWER_SIZE_MIN + content, 0);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::ask;
    use fieldseal_client::Limits;
    use fieldseal_client::raw::{EncodedRequest, RawConnection, request};

    #[test]
    fn answers_have_their_size_and_the_id_of_their_request() {
        let request = EncodedRequest::new(request::health);
        let echo = Echo::start(request.size() + 3, 4108, 1).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(echo.address).await.unwrap();
            let mut connection = RawConnection::over(stream, Limits::default());
            for _ in 0..3 {
                let (answer, _) = ask(&mut connection, &request).await.unwrap();
                assert_eq!(answer.len(), 4108);
            }
        });
    }
}

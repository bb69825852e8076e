//! A listener on its own thread, for ports that must respond under full load, or in a program without a runtime.

use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::socket::bind;

/// A thread with a runtime that serves at an address; it ends on drop.
#[derive(Debug)]
pub struct ListeningThread {
    address: SocketAddr,
    /// Dropped to stop the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ListeningThread {
    /// Listens at `address` (port 0 lets the system choose one) and runs the future that `serve` returns for the socket, until it ends.
    ///
    /// # Errors
    /// If the address is in use, or a thread cannot be started.
    pub fn start<F, S>(name: &str, address: SocketAddr, serve: F) -> io::Result<Self>
    where
        F: FnOnce(TcpListener) -> S + Send + 'static,
        S: Future<Output = ()>,
    {
        let runtime = Background(Some(Builder::new_current_thread().enable_all().build()?));
        let listener = {
            let _context = runtime.get().enter();
            bind(address)?
        };
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.get().block_on(async {
                tokio::select! {
                    () = serve(listener) => {}
                    // Stopped, or the sender was dropped, which means the same.
                    _ = stopped => {}
                }
            });
        })?;
        Ok(ListeningThread { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A runtime that can be dropped on a thread of another one, where tokio's own drop panics: a caller may fail to start there.
struct Background(Option<Runtime>);

impl Background {
    fn get(&self) -> &Runtime {
        self.0.as_ref().expect("only the drop takes it")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for ListeningThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported already.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dropping a runtime there panics.
    #[test]
    fn an_address_in_use_is_an_error_in_a_runtime_too() {
        let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = taken.local_addr().unwrap();
        Builder::new_current_thread().build().unwrap().block_on(async {
            let error = ListeningThread::start("test", address, |_| async {}).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        });
    }
}

//! A listener on its own thread, for ports that must respond under full load, or in a program without a runtime.

use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;

use tokio::net::TcpListener;
use tokio::runtime::Builder;
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
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _context = runtime.enter();
            bind(address)?
        };
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(async {
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

impl Drop for ListeningThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported already.
            let _ = thread.join();
        }
    }
}

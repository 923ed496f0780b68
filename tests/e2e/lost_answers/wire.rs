//! A way to a server on which only so much of what it answers comes through at first.

use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt as _, copy},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Notify,
};

/// Leads one connection after the other to that address, and stops behind so many bytes of what is answered: there it waits until it
/// may go on, or ends the connection if it never may. Gives its own address.
pub async fn stopping_behind(address: String, bytes: usize, go_on: Option<Arc<Notify>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut far = connect(&address).await;
            let ((mut from_near, mut to_near), (mut from_far, mut to_far)) = (near.split(), far.split());
            let answer = async {
                let _ = copy(&mut (&mut from_far).take(bytes as u64), &mut to_near).await;
                if let Some(go_on) = &go_on {
                    go_on.notified().await;
                    let _ = copy(&mut from_far, &mut to_near).await;
                }
            };
            tokio::select! {
                _ = copy(&mut from_near, &mut to_far) => {}
                () = answer => {}
            }
        }
    });
    own
}

/// With hardly any room for what is not read yet: that stays with the server.
async fn connect(address: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    socket.connect(address.parse().unwrap()).await.unwrap()
}

//! A file that `-o FILE` replaces passes on owner, group, mode and access lists, or stays as it is.
//!
//! Most of it needs root, which alone may give files away; without it these tests check nothing.

use std::fs::{File, Metadata, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use rustix::process::geteuid;

use crate::common::{CommandResult, PROGRAM, TestFolder, finish};

const ENCRYPT: [&str; 6] = ["encrypt", "--app", "acme", "-o", "out.json", "-"];
const DOCUMENT: &[u8] = br#"["4242"]"#;
const ACCESS_LIST: &str = "system.posix_acl_access";
const DEFAULT_LIST: &str = "system.posix_acl_default";

fn is_root() -> bool {
    geteuid().is_root()
}

/// Writes `out.json` with these attributes.
fn existing(folder: &TestFolder, owner: u32, group: u32, mode: u32) {
    let path = folder.write("out.json", "before");
    chown(&path, Some(owner), Some(group)).expect("given");
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
}

fn metadata(folder: &TestFolder) -> Metadata {
    std::fs::metadata(folder.path("out.json")).expect("there")
}

fn attributes(folder: &TestFolder) -> (u32, u32, u32) {
    let metadata = metadata(folder);
    (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777)
}

/// Whether the file is the result, and the folder has nothing else.
fn is_replaced(folder: &TestFolder) -> bool {
    assert_eq!(std::fs::read_dir(folder.0.path()).expect("folder").count(), 2, "the store and the file");
    folder.read("out.json").starts_with(b"[\"ev:")
}

/// Gives everything in the folder to a user.
fn give_all(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).expect("given");
    if path.is_dir() {
        std::fs::read_dir(path).expect("folder").for_each(|entry| give_all(&entry.expect("entry").path(), user));
    }
}

/// Runs the program as another user, of these groups. It is started through a descriptor, because the user may not be able to reach the
/// folder that it is in.
fn run_as(folder: &TestFolder, user: u32, groups: &str) -> CommandResult {
    let program = File::open(PROGRAM).expect("opened");
    let inherited = rustix::io::dup(&program).expect("a descriptor without close-on-exec");
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={user}"), &format!("--regid={user}"), &format!("--groups={groups}")]);
    command.arg(format!("/proc/self/fd/{}", inherited.as_raw_fd())).args(ENCRYPT).current_dir(folder.0.path());
    finish(&mut command, DOCUMENT)
}

/// An access list with one named user: `user::rw-, user:1005:r--, group::GROUP, mask::r--, other::---`.
fn access_list(group: u16) -> Vec<u8> {
    let none = u32::MAX;
    let entries = [(0x01_u16, 6_u16, none), (0x02, 4, 1005), (0x04, group, none), (0x10, 4, none), (0x20, 0, none)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes().into_iter().chain(permissions.to_le_bytes()).chain(id.to_le_bytes()));
    }
    list
}

#[test]
fn a_replaced_file_keeps_its_owner_group_and_mode() {
    if !is_root() {
        return;
    }
    let folder = TestFolder::with_app();
    for (owner, group, mode) in [(1000, 1001, 0o640), (0, 1001, 0o660), (1000, 0, 0o400), (0, 0, 0o604)] {
        existing(&folder, owner, group, mode);
        folder.run_with(&ENCRYPT, DOCUMENT).ok();
        assert_eq!(attributes(&folder), (owner, group, mode));
        assert!(is_replaced(&folder));
    }
    // As the kernel does when a file is written.
    existing(&folder, 1000, 1001, 0o6750);
    folder.run_with(&ENCRYPT, DOCUMENT).ok();
    assert_eq!(attributes(&folder), (1000, 1001, 0o750));
    // In a folder that gives its group to new files.
    std::fs::set_permissions(folder.0.path(), Permissions::from_mode(0o2700)).expect("set");
    chown(folder.0.path(), None, Some(1003)).expect("given");
    existing(&folder, 1000, 1001, 0o640);
    folder.run_with(&ENCRYPT, DOCUMENT).ok();
    assert_eq!(attributes(&folder), (1000, 1001, 0o640));
}

#[test]
fn a_user_keeps_the_group_of_a_replaced_file_or_changes_nothing() {
    if !is_root() {
        return;
    }
    let folder = TestFolder::with_app();
    give_all(folder.0.path(), 1000);
    existing(&folder, 1000, 1001, 0o660);
    run_as(&folder, 1000, "1001").ok();
    assert_eq!(attributes(&folder), (1000, 1001, 0o660));
    assert!(is_replaced(&folder));
    for (owner, group) in [(1000, 1002), (1001, 1001), (0, 0)] {
        existing(&folder, owner, group, 0o666);
        let message = run_as(&folder, 1000, "1001").fails(4);
        let expected =
            format!("cannot write to out.json: its owner and group ({owner}:{group}) cannot be kept by user 1000: ");
        assert!(message.contains(&expected), "{message}");
        assert_eq!((attributes(&folder), folder.read("out.json")), ((owner, group, 0o666), b"before".to_vec()));
    }
}

#[test]
fn a_replaced_file_keeps_its_access_list_and_attributes() {
    let folder = TestFolder::with_app();
    let path = folder.write("out.json", "before");
    let set = |path: &Path, name: &str, value: &[u8]| lsetxattr(path, name, value, XattrFlags::empty());
    if set(&path, ACCESS_LIST, &access_list(0)).is_err() {
        return;
    }
    // Without the list, its mask would be the permission of the group.
    set(&path, "user.origin", b"test").expect("set");
    let before = metadata(&folder).mode();
    folder.run_with(&ENCRYPT, DOCUMENT).ok();
    assert!(is_replaced(&folder));
    assert_eq!(metadata(&folder).mode(), before);
    let mut value = vec![0; 1024];
    for (name, expected) in [(ACCESS_LIST, access_list(0)), ("user.origin", b"test".to_vec())] {
        let size = lgetxattr(&path, name, &mut value).expect(name);
        assert_eq!(value[..size], expected, "{name}");
    }
    // A folder gives an access list to new files, but the replaced one had none.
    std::fs::remove_file(&path).expect("removed");
    std::fs::write(&path, "before").expect("written");
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("set");
    set(folder.0.path(), DEFAULT_LIST, &access_list(4)).expect("set");
    folder.run_with(&ENCRYPT, DOCUMENT).ok();
    assert!(lgetxattr(&path, ACCESS_LIST, &mut value).is_err(), "user 1005 may read it");
    assert_eq!(metadata(&folder).mode() & 0o777, 0o640);
}

#[test]
fn files_that_cannot_be_replaced_as_they_are_stay() {
    let folder = TestFolder::with_app();
    let path = folder.write("out.json", "before");
    std::fs::hard_link(&path, folder.path("other.json")).expect("linked");
    let message = folder.run_with(&ENCRYPT, DOCUMENT).fails(4);
    assert!(message.contains("cannot write to out.json: it has 2 names (hard links)"), "{message}");
    assert_eq!(folder.read("out.json"), b"before");
    std::fs::remove_file(folder.path("other.json")).expect("removed");
    std::fs::remove_file(&path).expect("removed");

    symlink("missing.json", &path).expect("linked");
    let message = folder.run_with(&ENCRYPT, DOCUMENT).fails(4);
    assert!(message.contains("a symbolic link to a file that does not exist"), "{message}");
    folder.write("missing.json", "before");
    folder.run_with(&ENCRYPT, DOCUMENT).ok();
    assert!(folder.read("missing.json").starts_with(b"[\"ev:"));
    assert!(std::fs::symlink_metadata(&path).expect("there").is_symlink());
    std::fs::remove_file(&path).expect("removed");

    // A file that another user has left where anybody may create files would show that user the result.
    if is_root() {
        std::fs::set_permissions(folder.0.path(), Permissions::from_mode(0o1777)).expect("set");
        existing(&folder, 1000, 1000, 0o600);
        let message = folder.run_with(&["decrypt", "--app", "acme", "-o", "out.json", "-"], DOCUMENT).fails(4);
        assert!(message.contains("it belongs to user 1000"), "{message}");
        assert_eq!(folder.read("out.json"), b"before");
    }
}

#[test]
fn renewed_certificates_and_keys_keep_their_owner() {
    if !is_root() {
        return;
    }
    let folder = TestFolder::with_app();
    folder.run(&["certs", "init"]).ok();
    folder.run(&["certs", "issue", "shop", "--app", "acme", "--allow", "encrypt"]).ok();
    let files = [".leafseal/certs/shop.pem", ".leafseal/certs/shop.key"].map(|name| folder.path(name));
    for file in &files {
        chown(file, Some(1000), Some(1001)).expect("given");
    }
    folder.run(&["certs", "issue", "shop", "--app", "acme", "--allow", "encrypt"]).ok();
    for (file, mode) in files.iter().zip([0o644, 0o600]) {
        let metadata = std::fs::metadata(file).expect("there");
        assert_eq!((metadata.uid(), metadata.gid(), metadata.mode() & 0o7777), (1000, 1001, mode));
    }
}

/// A file that the shell has opened is not replaced: later output is appended to the command's, and the file stays the same.
#[test]
fn a_redirected_file_is_written_where_it_stands() {
    let folder = TestFolder::with_app();
    symlink("/dev/stdout", folder.path("link")).expect("linked");
    for (redirection, path) in [
        (">", "/dev/stdout"),
        (">>", "/dev/stdout"),
        (">", "/dev/fd/1"),
        (">", "/proc/self/fd/1"),
        (">", "/proc/thread-self/fd/1"),
        (">", "link"),
        (">", "out.json"),
        ("2>", "/dev/stderr"),
    ] {
        let file = folder.write("out.json", "old ");
        let before = std::fs::metadata(&file).expect("there").ino();
        let (own, to) = if redirection == "2>" { ("2", " >&2") } else { ("", "") };
        let redirection = redirection.trim_start_matches('2');
        let script = format!(
            "exec {own}{redirection} out.json; echo before{to}; {PROGRAM} encrypt --app acme -o {path} - || exit 1; echo after{to}"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(folder.0.path());
        let result = finish(&mut command, DOCUMENT);
        assert_eq!(result.code, 0, "{path}: {}", result.stderr);
        let text = String::from_utf8(folder.read("out.json")).expect("UTF-8");
        let expected = if redirection == ">>" { "old before\n[\"ev:" } else { "before\n[\"ev:" };
        let count = if own == "2" { "encrypted 1 value\n" } else { "" };
        assert!(text.starts_with(expected) && text.ends_with(&format!(":$\"]{count}after\n")), "{path}: {text}");
        assert_eq!(std::fs::metadata(&file).expect("there").ino(), before, "{path}: the same file");
    }
}

/// Another descriptor has a place in the file that cannot be shared: nothing is written. One for reading is no obstacle.
#[test]
fn another_open_file_is_refused() {
    let folder = TestFolder::with_app();
    let run = |script: &str| {
        folder.write("out.json", "old");
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(folder.0.path());
        finish(&mut command, DOCUMENT)
    };
    for path in ["/dev/fd/3", "out.json"] {
        let result = run(&format!(
            "exec 3>>out.json; {PROGRAM} encrypt --app acme -o {path} -; code=$?; echo after >&3; exit $code"
        ));
        assert_ne!(result.code, 0, "{path}");
        assert!(result.stderr.contains("it is a file that is open already"), "{}", result.stderr);
        assert_eq!(folder.read("out.json"), b"oldafter\n");
    }
    assert_eq!(run(&format!("exec 3<out.json; {PROGRAM} encrypt --app acme -o out.json -")).code, 0);
    assert!(folder.read("out.json").starts_with(b"[\"ev:"));
    let piped = run(&format!("{PROGRAM} encrypt --app acme -o /dev/fd/3 - 3>&1 | cat > out.json"));
    assert_eq!(piped.code, 0, "a pipe has no place: {}", piped.stderr);
    assert!(folder.read("out.json").starts_with(b"[\"ev:"));
}

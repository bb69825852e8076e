//! The columns of the table of codes: the side at fault, whether a retry may succeed, and where the code occurs.

/// Declares an enum whose cases have a name for programs.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$case_about:meta])* $case:ident = $word:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$case_about])* $case),+
        }

        impl $name {
            /// Every case.
            pub const ALL: &'static [$name] = &[$($name::$case),+];

            /// The name for programs.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$case => $word),+ }
            }

            /// The reverse of `as_str`.
            pub fn parse(word: &str) -> Option<$name> {
                match word { $($word => Some($name::$case),)+ _ => None }
            }
        }
    };
}

words! {
    /// Whether the same request may succeed when it is sent again.
    Retry {
        /// The same request fails again, here and elsewhere.
        Never = "never",
        /// The same engine may serve it after a pause.
        Later = "later",
        /// Another engine, or a new connection, may serve it at once.
        Elsewhere = "elsewhere",
    }
}

words! {
    /// The side at fault.
    Side {
        /// The caller's request.
        Caller = "caller",
        /// The envelopes, or the key versions that would open them.
        Data = "data",
        /// Permissions that the caller lacks.
        Permission = "permission",
        /// Neither side's: the same request may succeed later.
        Temporary = "temporary",
        /// The server behind the relay.
        Upstream = "upstream",
        /// The engine, the relay or the client, or their configuration.
        Service = "service",
    }
}

words! {
    /// An interface that returns codes.
    Interface {
        /// MessagePack-RPC.
        Rpc = "RPC",
        /// The HTTPS API of the engine.
        Api = "API",
        /// The HTTP relay.
        Relay = "relay",
        /// The client libraries, for errors that they detect themselves.
        Client = "client",
        /// The browser build of `@leafseal/client`.
        Browser = "browser",
    }
}

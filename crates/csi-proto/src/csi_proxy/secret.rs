//! Hides secrets in printed requests. The output shows only whether a secret is set.

use std::fmt;

use serde::Serializer;

const HIDDEN: &str = "(hidden)";

/// Serialises a secret field without its value. An empty secret remains empty.
pub(crate) fn hidden<S: Serializer>(secret: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(shown(secret))
}

fn shown(secret: &str) -> &'static str {
    if secret.is_empty() { "" } else { HIDDEN }
}

macro_rules! hide {
    ($($group:ident: $($version:ident)+, $message:ident { $($field:ident)*, $secret:ident })+) => { $(
        hide!(@each [$($version)+] $group $message { $($field)*, $secret });
    )+ };
    (@each [$($version:ident)+] $group:ident $message:ident $fields:tt) => { $(
        hide!(@one $group $version $message $fields);
    )+ };
    (@one $group:ident $version:ident $message:ident { $($field:ident)*, $secret:ident }) => {
        impl fmt::Debug for crate::csi_proxy::$group::$version::$message {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter
                    .debug_struct(stringify!($message))
                    $(.field(stringify!($field), &self.$field))*
                    .field(stringify!($secret), &shown(&self.$secret))
                    .finish()
            }
        }
    };
}

hide! {
    smb: v1alpha1 v1beta1 v1beta2 v1, NewSmbGlobalMappingRequest { remote_path local_path username, password }
    iscsi: v1alpha1 v1alpha2, ConnectTargetRequest { target_portal iqn auth_type chap_username, chap_secret }
    iscsi: v1alpha2, SetMutualChapSecretRequest { , mutual_chap_secret }
}

#[cfg(test)]
mod tests {
    use crate::csi_proxy::{iscsi, smb};

    const PLANTED: &str = "planted-secret";

    fn assert_hidden<M: std::fmt::Debug + serde::Serialize>(message: &M) {
        for shown in [format!("{message:?}"), serde_json::to_string(message).unwrap()] {
            assert!(!shown.contains(PLANTED), "{shown}");
            assert!(shown.contains(super::HIDDEN), "{shown}");
        }
    }

    #[test]
    fn printed_requests_hide_their_secrets() {
        let secret = || PLANTED.to_owned();
        assert_hidden(&smb::v1alpha1::NewSmbGlobalMappingRequest { password: secret(), ..Default::default() });
        assert_hidden(&smb::v1beta1::NewSmbGlobalMappingRequest { password: secret(), ..Default::default() });
        assert_hidden(&smb::v1beta2::NewSmbGlobalMappingRequest { password: secret(), ..Default::default() });
        assert_hidden(&smb::v1::NewSmbGlobalMappingRequest { password: secret(), ..Default::default() });
        assert_hidden(&iscsi::v1alpha1::ConnectTargetRequest { chap_secret: secret(), ..Default::default() });
        assert_hidden(&iscsi::v1alpha2::ConnectTargetRequest { chap_secret: secret(), ..Default::default() });
        assert_hidden(&iscsi::v1alpha2::SetMutualChapSecretRequest { mutual_chap_secret: secret() });
    }
}

//! COM settings of the whole process. The threads share one apartment, and all traffic to WMI is encrypted.

use std::ptr::{null, null_mut};
use std::sync::Once;

use windows_sys::Win32::Foundation::RPC_E_TOO_LATE;
use windows_sys::Win32::System::Com::{
    CoIncrementMTAUsage, CoInitializeSecurity, EOAC_NONE, RPC_C_AUTHN_LEVEL_PKT_PRIVACY, RPC_C_IMP_LEVEL_IMPERSONATE,
};

/// COM accepts these settings only once per process.
static ENCRYPTED: Once = Once::new();

/// Enables encryption. Must run before the first connection, so that the objects that connections create, above all the
/// enumerators, use encryption too.
pub(super) fn encrypt() {
    ENCRYPTED.call_once(|| {
        let mut cookie = null_mut();
        // SAFETY: the call writes `cookie` only while it runs. The apartment stays for the life of the process, so the
        // cookie is never released.
        let joined = unsafe { CoIncrementMTAUsage(&raw mut cookie) };
        let authentication = RPC_C_AUTHN_LEVEL_PKT_PRIVACY;
        // SAFETY: all pointers are null, which selects COM's defaults; -1 means that no services are listed.
        let secured = unsafe {
            CoInitializeSecurity(
                null_mut(),
                -1,
                null(),
                null(),
                authentication,
                RPC_C_IMP_LEVEL_IMPERSONATE,
                null(),
                EOAC_NONE.cast_unsigned(),
                null(),
            )
        };
        if joined < 0 || (secured < 0 && secured != RPC_E_TOO_LATE) {
            tracing::warn!(joined, secured, "failed to set packet privacy for COM, but WMI connections still use it");
        }
    });
}

//! The resource usage of this process, as Windows reports it.

use windows_sys::Wdk::System::SystemInformation::NtQuerySystemInformation;
use windows_sys::Win32::Foundation::{FILETIME, STATUS_INFO_LENGTH_MISMATCH, STATUS_SUCCESS};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessHandleCount, GetProcessTimes};

use crate::figures::Figures;

/// Seconds between Windows' epoch, 1601, and 1970.
const EPOCH: f64 = 11_644_473_600.0;
const TICKS: f64 = 10_000_000.0;

pub(crate) fn process_figures() -> Figures {
    let times = times();
    Figures {
        cpu_seconds: times.map(|(_, kernel, user)| kernel + user),
        resident: resident(),
        open: handles(),
        started: times.map(|(created, _, _)| created - EPOCH),
    }
}

/// Returns the creation time since 1601, kernel time and user time, in seconds.
fn times() -> Option<(f64, f64, f64)> {
    const ZERO: FILETIME = FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 };
    let (mut created, mut ended, mut kernel, mut user) = (ZERO, ZERO, ZERO, ZERO);
    // SAFETY: this process's own handle is always valid; the four output variables are ours.
    let done = unsafe {
        GetProcessTimes(GetCurrentProcess(), &raw mut created, &raw mut ended, &raw mut kernel, &raw mut user)
    };
    let seconds =
        |time: FILETIME| (f64::from(time.dwHighDateTime) * 4_294_967_296.0 + f64::from(time.dwLowDateTime)) / TICKS;
    (done != 0).then(|| (seconds(created), seconds(kernel), seconds(user)))
}

fn resident() -> Option<f64> {
    let size = u32::try_from(size_of::<PROCESS_MEMORY_COUNTERS>()).expect("a few bytes");
    let mut counters = PROCESS_MEMORY_COUNTERS { cb: size, ..Default::default() };
    // SAFETY: this process's own handle is always valid; the structure is ours and has the given size.
    let done = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut counters, size) };
    // The conversion to a double is exact, because the size is at most a few gibibytes.
    let kibibytes = u32::try_from(counters.WorkingSetSize / 1024).ok();
    kibibytes.filter(|_| done != 0).map(|kibibytes| f64::from(kibibytes) * 1024.0)
}

fn handles() -> Option<f64> {
    let mut count = 0;
    // SAFETY: this process's own handle is always valid; the output variable is ours.
    let done = unsafe { GetProcessHandleCount(GetCurrentProcess(), &raw mut count) };
    // Wine reports 0, although every process has handles. In that case, count the handles in the machine's table.
    if done == 0 || count == 0 { counted_handles() } else { Some(f64::from(count)) }
}

/// The query number for the machine's table of handles. The table begins with two words, the first of which is the
/// count. Then each handle has five words, the second of which is the process id.
const ALL_HANDLES: i32 = 64;
const BEFORE: usize = 2;
const OF_ONE: usize = 5;
const FIRST_WORDS: usize = 1 << 14;
const MOST_WORDS: usize = 1 << 23;

fn counted_handles() -> Option<f64> {
    let mut table = vec![0_usize; FIRST_WORDS];
    loop {
        let bytes = u32::try_from(size_of_val(table.as_slice())).ok()?;
        let mut needed = 0;
        // SAFETY: the table is ours, aligned to words, and has the given size.
        let status =
            unsafe { NtQuerySystemInformation(ALL_HANDLES, table.as_mut_ptr().cast(), bytes, &raw mut needed) };
        match status {
            STATUS_SUCCESS => break,
            STATUS_INFO_LENGTH_MISMATCH if table.len() < MOST_WORDS => table.resize(table.len() * 2, 0),
            _ => return None,
        }
    }
    let process = usize::try_from(std::process::id()).ok()?;
    let all = table[BEFORE..].chunks_exact(OF_ONE).take(table[0]);
    let count = u32::try_from(all.filter(|handle| handle[1] == process).count()).ok()?;
    Some(f64::from(count))
}

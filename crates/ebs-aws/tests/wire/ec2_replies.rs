//! Quoted replies of the real EC2, returned by the simulator and read by the adapter.
//!
//! `ec2_replies/rows.tsv` lists the replies, each with a script. The tests provoke each reply in a simulated account,
//! or with a fault rule if no state leads to it, and compare its status, code and text. Then they send the same bytes
//! through the SDK over loopback HTTP and compare the class that the adapter assigns.

mod adapter;
mod rows;
mod script;
mod signed;

use tokio::task::{LocalSet, spawn_local};

use rows::{How, Row};

/// Returns how the simulator and the adapter differ from the row. A reply that cannot be provoked is a difference too.
async fn differences(row: &Row) -> Vec<String> {
    let all = row.clone();
    let compared = LocalSet::new().run_until(async { spawn_local(async move { compared(&all).await }).await }).await;
    compared.unwrap_or_else(|failed| {
        let panic = failed.into_panic();
        vec![panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "it panicked".to_owned())]
    })
}

async fn compared(row: &Row) -> Vec<String> {
    let said = script::provoke(row).await;
    let class = adapter::class_of(&row.action, &said).await;
    let (status, code) = (said.status == row.status, said.code == row.code);
    let checks = [
        (status, format!("status {} instead of {}", said.status, row.status)),
        (code, format!("code {:?} instead of {:?}", said.code, row.code)),
        (rows::fits(&row.text, &said.text), format!("text {:?} instead of {:?}", said.text, row.text)),
        (class == row.class, format!("class {class} instead of {}", row.class)),
    ];
    checks.into_iter().filter(|(is_right, _)| !is_right).map(|(_, what)| what).collect()
}

/// The test provokes and compares every row, unless the row names a reason why it cannot.
#[tokio::test]
async fn simulator_replies_match_the_quoted_ec2_replies() {
    let (mut compared, mut left_out, mut wrong) = (0, 0, Vec::new());
    for row in rows::all() {
        if let How::Not(why) = &row.how {
            assert!(!why.is_empty(), "{}: no word on why it is not provoked", row.id);
            left_out += 1;
            continue;
        }
        compared += 1;
        wrong.extend(differences(&row).await.into_iter().map(|what| format!("{}: {what}", row.id)));
    }
    assert!(wrong.is_empty(), "{} of {compared} rows:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!((compared, left_out), (116, 7), "rows were added or taken away");
}

#[tokio::test]
async fn comparison_detects_a_wrong_reply_and_a_missing_script() {
    let mut row = rows::all().into_iter().find(|row| row.id == "volumes-missing").unwrap();
    assert_eq!(differences(&row).await, Vec::<String>::new());
    row.text = "The volume '{vol}' is gone.".to_owned();
    row.class = "SnapshotNotFound".to_owned();
    assert_eq!(differences(&row).await.len(), 2);
    row.how = How::Script("DescribeVolumes".to_owned());
    assert_eq!(differences(&row).await.len(), 1);
}

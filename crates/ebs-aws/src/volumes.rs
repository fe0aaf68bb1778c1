//! The port's volumes: one method, one call.

use aws_sdk_ec2::types::{ResourceType, Tag, VolumeType as SdkType};
use ebs_ec2::{
    Action, CopyVolume, CreateVolume, Modification, ModifyVolume, Page, PageRequest, Place, Result, Volume,
    VolumeQuery, VolumeStatus, Volumes,
};
use ebs_types::{Tags, VolumeId, VolumeType};

use crate::AwsEc2;
use crate::convert::{Incomplete, Read, about, among, required, text, volume as convert};
use crate::query::{filter, max_results, number, size, tag_list, tags_of};

fn sdk_type(volume_type: &VolumeType) -> SdkType {
    SdkType::from(volume_type.as_str())
}

impl Volumes for AwsEc2 {
    async fn create_volume(&self, request: &CreateVolume) -> Result<Volume> {
        let (zone, zone_id) = match &request.place {
            Place::Zone(name) => (Some(name.to_string()), None),
            Place::ZoneId(id) => (None, Some(id.to_string())),
        };
        let monitor = self.monitor(Action::CreateVolume).maybe_dry_run(request.dry_run);
        let operation = self
            .client
            .create_volume()
            .client_token(&request.client_token)
            .set_availability_zone(zone)
            .set_availability_zone_id(zone_id)
            .size(size(request.size))
            .volume_type(sdk_type(&request.volume_type))
            .multi_attach_enabled(request.multi_attach)
            .encrypted(request.encrypted || request.kms_key_id.is_some())
            .set_iops(request.iops.map(number))
            .set_throughput(request.throughput.map(number))
            .set_kms_key_id(request.kms_key_id.clone())
            .set_snapshot_id(request.snapshot.as_ref().map(ToString::to_string))
            .set_volume_initialization_rate(request.initialization_rate.map(number))
            .set_outpost_arn(request.outpost_arn.clone())
            .set_tag_specifications(tags_of(ResourceType::Volume, &request.tags))
            .set_dry_run(request.dry_run.then_some(true))
            .customize();
        let send = monitor.once(operation).send();
        self.call(monitor, send, convert::created).await
    }

    async fn copy_volume(&self, request: &CopyVolume) -> Result<Volume> {
        let monitor = self.monitor(Action::CopyVolumes);
        let operation = self
            .client
            .copy_volumes()
            .client_token(&request.client_token)
            .source_volume_id(request.source.as_str())
            .size(size(request.size))
            .volume_type(sdk_type(&request.volume_type))
            .multi_attach_enabled(request.multi_attach)
            .set_iops(request.iops.map(number))
            .set_throughput(request.throughput.map(number))
            .set_tag_specifications(tags_of(ResourceType::Volume, &request.tags))
            .customize();
        let send = monitor.once(operation).send();
        self.call(monitor, send, |reply| {
            let mut volumes = reply.volumes.unwrap_or_default();
            match (volumes.pop(), volumes.len()) {
                (Some(volume), 0) => convert::volume(volume),
                (None, _) => Err(Incomplete::lacks("volume")),
                (Some(_), more) => Err(Incomplete(format!("{} volumes for one copy", more + 1))),
            }
        })
        .await
    }

    async fn delete_volume(&self, id: &VolumeId) -> Result<()> {
        let monitor = self.monitor(Action::DeleteVolume);
        let send = monitor.once(self.client.delete_volume().volume_id(id.as_str()).customize()).send();
        self.call(monitor, send, |_| Ok(())).await
    }

    async fn describe_volumes(&self, query: &VolumeQuery, page: &PageRequest) -> Result<Page<Volume>> {
        let operation = self.client.describe_volumes();
        let paged = |operation: aws_sdk_ec2::operation::describe_volumes::builders::DescribeVolumesFluentBuilder| {
            operation.set_max_results(max_results(page)).set_next_token(page.token.clone())
        };
        // An empty list of ids or values would mean "all" to EC2.
        let operation = match query {
            VolumeQuery::FilterIds(ids) if ids.is_empty() => return Ok(Page { items: vec![], next: None }),
            VolumeQuery::Tag { values, .. } if values.is_empty() => return Ok(Page { items: vec![], next: None }),
            VolumeQuery::FilterIds(ids) => {
                paged(operation.filters(filter("volume-id", ids.iter().map(VolumeId::as_str))))
            }
            VolumeQuery::Tag { key, values } => paged(operation.filters(filter(format!("tag:{key}"), values))),
        };
        let monitor = self.monitor(Action::DescribeVolumes);
        let send = monitor.repeatable(operation.customize()).send();
        let watch = monitor.clone();
        self.call(monitor, send, |reply| {
            let list = required(reply.volumes, "list of volumes")?;
            let mut items = list.into_iter().map(convert::volume).collect::<Read<Vec<_>>>()?;
            items.iter_mut().flat_map(|v| &mut v.attachments).for_each(|a| a.said_at = watch.date());
            if let VolumeQuery::FilterIds(ids) = query {
                among(&items, |v| &v.id, ids)?;
            }
            Ok(Page { items, next: text(reply.next_token) })
        })
        .await
    }

    async fn modify_volume(&self, request: &ModifyVolume) -> Result<Modification> {
        let monitor = self.monitor(Action::ModifyVolume);
        let operation = self
            .client
            .modify_volume()
            .volume_id(request.volume.as_str())
            .set_size(request.size.map(size))
            .set_volume_type(request.volume_type.as_ref().map(sdk_type))
            .set_iops(request.iops.map(number))
            .set_throughput(request.throughput.map(number))
            .customize();
        let send = monitor.once(operation).send();
        self.call(monitor, send, |reply| {
            let modification = convert::modification(required(reply.volume_modification, "modification")?)?;
            about(&modification.volume, &request.volume)?;
            Ok(modification)
        })
        .await
    }

    async fn describe_modifications(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<Modification>> {
        if volumes.is_empty() {
            return Ok(Page { items: vec![], next: None });
        }
        let monitor = self.monitor(Action::DescribeVolumesModifications);
        let operation = self
            .client
            .describe_volumes_modifications()
            .filters(filter("volume-id", volumes.iter().map(VolumeId::as_str)))
            .set_max_results(max_results(page))
            .set_next_token(page.token.clone())
            .customize();
        let send = monitor.repeatable(operation).send();
        self.call(monitor, send, |reply| {
            let list = required(reply.volumes_modifications, "list of modifications")?;
            let items = list.into_iter().map(convert::modification).collect::<Read<Vec<_>>>()?;
            among(&items, |m| &m.volume, volumes)?;
            Ok(Page { items, next: text(reply.next_token) })
        })
        .await
    }

    async fn describe_volume_status(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<VolumeStatus>> {
        if volumes.is_empty() {
            // No ids would mean "all" to EC2.
            return Ok(Page { items: vec![], next: None });
        }
        let monitor = self.monitor(Action::DescribeVolumeStatus);
        let operation = self
            .client
            .describe_volume_status()
            .set_volume_ids(Some(volumes.iter().map(ToString::to_string).collect()))
            .set_next_token(page.token.clone())
            .customize();
        let send = monitor.repeatable(operation).send();
        self.call(monitor, send, |reply| {
            let list = required(reply.volume_statuses, "list of statuses")?;
            let items = list.into_iter().map(convert::status).collect::<Read<Vec<_>>>()?;
            among(&items, |s| &s.volume, volumes)?;
            Ok(Page { items, next: text(reply.next_token) })
        })
        .await
    }

    async fn create_tags(&self, resource: &str, tags: &Tags) -> Result<()> {
        let monitor = self.monitor(Action::CreateTags);
        let operation = self.client.create_tags().resources(resource).set_tags(Some(tag_list(tags))).customize();
        let send = monitor.once(operation).send();
        self.call(monitor, send, |_| Ok(())).await
    }

    async fn delete_tags(&self, resource: &str, keys: &[String]) -> Result<()> {
        if keys.is_empty() {
            // Without keys EC2 deletes every tag of the resource.
            return Ok(());
        }
        let monitor = self.monitor(Action::DeleteTags);
        let tags = keys.iter().map(|key| Tag::builder().key(key).build()).collect();
        let operation = self.client.delete_tags().resources(resource).set_tags(Some(tags)).customize();
        let send = monitor.once(operation).send();
        self.call(monitor, send, |_| Ok(())).await
    }
}

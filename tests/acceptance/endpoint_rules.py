"""Prints the endpoints of EC2, SageMaker and STS from the rule sets that AWS publishes in botocore, one JSON object per line.

Covers every region of every partition and, for each partition, a region that does not exist yet: AWS adds regions more often
than users update this driver.
"""

import json
import re

from botocore.endpoint_provider import EndpointProvider
from botocore.exceptions import EndpointProviderError
from botocore.loaders import create_loader

LOADER = create_loader()
PARTITIONS = LOADER.load_data("partitions")
SERVICES = {"ec2": {}, "sagemaker": {}, "sts": {"UseGlobalEndpoint": False}}


def regions(partition):
    """Returns the regions that match the partition's pattern (`aws-global` is not a region), and a new one."""
    pattern = re.compile(partition["regionRegex"])
    known = sorted(region for region in partition["regions"] if pattern.match(region))
    new = known[0].rsplit("-", 1)[0] + "-99"
    assert pattern.match(new) and new not in known, new
    return known + [new]


def endpoint(provider, parameters):
    try:
        return provider.resolve_endpoint(**parameters).url
    except EndpointProviderError as error:
        return f"none: {error}"


def main():
    providers = {
        service: EndpointProvider(LOADER.load_service_model(service, "endpoint-rule-set-1"), PARTITIONS)
        for service in SERVICES
    }
    for partition in PARTITIONS["partitions"]:
        for region in regions(partition):
            for fips in (False, True):
                for dual_stack in (False, True):
                    row = {"partition": partition["id"], "region": region, "fips": fips, "dual_stack": dual_stack}
                    for service, provider in providers.items():
                        parameters = {"Region": region, "UseFIPS": fips, "UseDualStack": dual_stack, **SERVICES[service]}
                        row[service] = endpoint(provider, parameters)
                    print(json.dumps(row))


main()

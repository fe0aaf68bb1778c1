"""Sets the addresses of the site, and points links that leave docs/ to the repository.

Cargo.toml names the repository. EBS_REF in the environment is the tag or branch to which links point.
"""

import os
import re
import tomllib

from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
with open(os.path.join(ROOT, "Cargo.toml"), "rb") as manifest:
    REPOSITORY = tomllib.load(manifest)["workspace"]["package"].get("repository", "https://github.com/OWNER/REPO")
REF = os.environ.get("EBS_REF", "HEAD")
FENCE = re.compile(r"^ *```.*?^ *```", re.M | re.S)
ITEM = re.compile(r"^ *(?:-|[0-9]+\.) ", re.M)
LINK = re.compile(r"(?P<before>\]\(|^\[[^\]]+\]: )(?P<path>(?:\.\./)[^)\s#]*)(?P<anchor>#[^)\s]*)?", re.M)


# Before mike, which adds the version to the address.
@event_priority(100)
def on_config(config):
    owner, name = REPOSITORY.rstrip("/").split("/")[-2:]
    config.site_url = f"https://{owner.lower()}.github.io/{name}/"
    config.repo_name = f"{owner}/{name}"
    config.repo_url = REPOSITORY
    config.edit_uri = f"blob/{REF}/docs/"
    return config


def on_page_markdown(markdown, page, config, files):
    if re.search(r"^ {1,3}```", markdown, re.M):
        raise PluginError(f"docs/{page.file.src_uri}: a code block in a list ends the list; indent it by four spaces")
    directory = os.path.dirname(os.path.join(config.docs_dir, page.file.src_uri))

    def to_repository(link):
        target = os.path.normpath(os.path.join(directory, link["path"]))
        if target == config.docs_dir or target.startswith(config.docs_dir + os.sep):
            return link[0]
        path = os.path.relpath(target, ROOT)
        if path.startswith("..") or not os.path.exists(target):
            raise PluginError(f"docs/{page.file.src_uri}: the link {link['path']} names no file of the repository")
        kind = "tree" if os.path.isdir(target) else "blob"
        return f"{link['before']}{config.repo_url}/{kind}/{REF}/{path}{link['anchor'] or ''}"

    return LINK.sub(to_repository, markdown)


def on_page_content(html, page, config, files):
    """Fails where GitHub shows a list and the website does not: at an item without a blank line before its list."""
    written, shown = len(ITEM.findall(FENCE.sub("", page.markdown))), html.count("<li>")
    if written != shown:
        raise PluginError(f"docs/{page.file.src_uri}: {written} list items are written, {shown} are shown; add a blank line before the list")

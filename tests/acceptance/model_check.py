"""Checks every response of the simulator against botocore's model of EC2.

botocore's parser drops unknown elements and accepts missing ones. Here, each element of a response must be in the
model, at its place, once, and with a value of its type.
"""

import re
import xml.etree.ElementTree as ElementTree

NAMESPACE = "{http://ec2.amazonaws.com/doc/2016-11-15/}"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
REQUEST_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ModelError(Exception):
    """A response that EC2 could not have sent."""


class ModelCheck:
    """Checks every response to a client before botocore parses it."""

    def __init__(self, client):
        self.answers = 0
        client.meta.events.register("before-parse.ec2.*", self._look)

    def _look(self, operation_model, response_dict, **_):
        self.answers += 1
        where = operation_model.name
        try:
            root = ElementTree.fromstring(response_dict["body"])
        except ElementTree.ParseError as error:
            raise ModelError(f"{where}: no XML: {error}") from error
        if response_dict["status_code"] >= 300:
            _check_refusal(where, root)
        else:
            _check_answer(where, root, operation_model)


def _check_refusal(where, root):
    shape = [root.tag] + [child.tag for child in root]
    if shape != ["Response", "Errors", "RequestID"]:
        raise ModelError(f"{where}: a refusal is Response(Errors, RequestID), not {shape}")
    errors = root.find("Errors")
    if [error.tag for error in errors] != ["Error"]:
        raise ModelError(f"{where}: not one Error")
    if [part.tag for part in errors[0]] != ["Code", "Message"] or not all(part.text for part in errors[0]):
        raise ModelError(f"{where}: an Error is Code and Message")
    if not REQUEST_ID.fullmatch(root.findtext("RequestID")):
        raise ModelError(f"{where}: {root.findtext('RequestID')!r} is no request id")


def _check_answer(where, root, operation_model):
    if root.tag != f"{NAMESPACE}{operation_model.name}Response":
        raise ModelError(f"{where}: the root is {root.tag}")
    children = [child for child in root if child.tag != f"{NAMESPACE}requestId"]
    if len(children) != len(root) - 1 or not REQUEST_ID.fullmatch(root.findtext(f"{NAMESPACE}requestId")):
        raise ModelError(f"{where}: not exactly one requestId")
    if operation_model.output_shape is None:
        if [(child.tag, child.text) for child in children] != [(f"{NAMESPACE}return", "true")]:
            raise ModelError(f"{where}: an action without result answers return=true")
        return
    _check_members(where, children, operation_model.output_shape)


def _check_members(where, children, shape):
    members = {member.serialization.get("name", name): member for name, member in shape.members.items()}
    seen = set()
    for child in children:
        name = child.tag.removeprefix(NAMESPACE)
        if name not in members:
            raise ModelError(f"{where}: {shape.name} has no element {name}")
        if name in seen:
            raise ModelError(f"{where}: {name} is there twice")
        seen.add(name)
        _check_value(f"{where}/{name}", child, members[name])


def _check_value(where, element, shape):
    kind = shape.type_name
    if kind == "structure":
        _check_members(where, list(element), shape)
    elif kind == "list":
        item = NAMESPACE + shape.member.serialization.get("name", "item")
        for child in element:
            if child.tag != item:
                raise ModelError(f"{where}: {child.tag} in a list of {item}")
            _check_value(f"{where}/item", child, shape.member)
    else:
        _check_text(where, element, shape)


def _check_text(where, element, shape):
    text = element.text or ""
    if len(element):
        raise ModelError(f"{where}: elements where a {shape.type_name} should be")
    kinds = {
        "integer": lambda: re.fullmatch(r"-?\d+", text) and -(2**31) <= int(text) < 2**31,
        "long": lambda: re.fullmatch(r"-?\d+", text),
        "boolean": lambda: text in ("true", "false"),
        "timestamp": lambda: TIME.fullmatch(text),
        "string": lambda: not getattr(shape, "enum", None) or text in shape.enum,
    }
    if shape.type_name not in kinds:
        raise ModelError(f"{where}: no rule for a {shape.type_name}")
    if not kinds[shape.type_name]():
        raise ModelError(f"{where}: {text!r} is no {shape.name} ({shape.type_name})")

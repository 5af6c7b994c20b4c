"""The page of a running server: edits are computed and undone, gradients are nudged, and strangers are refused."""

import copy
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import urllib.parse

import numpy as np
import pytest
from helpers import ROOT
from helpers.browser import Keys, Page, example, step_numbers

import numpy_transformer as nt

TEXT = "the dogs near the cat sleep"            # other words, of the tiny decoder's language


def shown_loss(page):
    return float(page.find("#header .loss").get_attribute("data-value"))


def write(page, css, text):
    field = page.find(css)
    field.send_keys(Keys.CONTROL + "a")
    field.send_keys(text)
    return field


def numbers_agree(page, recorded, refs):
    """Goes to the largest entry of some arrays and compares the number that is shown there."""
    for ref in refs:
        cell = np.unravel_index(np.nanargmax(np.abs(recorded[ref])), recorded[ref].shape)
        page.go(f"op={page.op_of(ref)}&ref={ref}&cell={','.join(map(str, cell))}")
        number = float(page.wait("""
            const number = document.querySelector('#number h2 [data-ref]');
            return number?.dataset.ref === arguments[0] && number.dataset.cell === arguments[1] && number.dataset.value;""",
            ref, ",".join(map(str, cell))))
        np.testing.assert_allclose(number, recorded[ref][cell], rtol=1e-6, err_msg=ref)


REFS = ["grad embedding:y", "decoder.blocks.1.attention.attention.softmax:y", "grad decoder.blocks.0.attention.query.weight",
        "output:y", "grad decoder.blocks.0.attention.attention.softmax:y"]


def test_it_loads_from_its_server_alone(live, server):
    page = live().settle()
    assert page.errors() == []
    asked = [address for address in page.requests() if not address.startswith(("data:", "blob:", "about:"))]
    assert len(asked) > 10 and all(address.startswith(server.address) for address in asked), asked


def test_editing_the_text_draws_everything_again(live):
    page = live()
    before = shown_loss(page)
    write(page, "#text", TEXT + Keys.ENTER)
    page.wait("return Number(document.querySelector('#header .loss').dataset.value) !== arguments[0]", before)
    recorded = step_numbers(example("decoder"), TEXT)
    np.testing.assert_allclose(shown_loss(page), recorded["loss:y"], rtol=1e-6)
    numbers_agree(page, recorded, REFS)
    page.go(f"op=decoder.blocks.0.attention.attention.softmax&ref={REFS[1]}&view=attention")
    assert "dogs" in page.find("#view-attention").text
    assert page.errors() == []


def test_a_text_that_cannot_be_read_gets_a_sentence_and_loses_nothing(live):
    page = live()
    before = shown_loss(page)
    write(page, "#text", "the elephants sleep" + Keys.ENTER)
    sentence = page.wait("return document.querySelector('#status').innerText")
    assert "elephants" in sentence and "Traceback" not in sentence and shown_loss(page) == before
    write(page, "#text", TEXT + Keys.ENTER)
    page.wait("return Number(document.querySelector('#header .loss').dataset.value) !== arguments[0]", before)
    assert not page.text("#status")


def test_a_bug_changes_the_numbers_and_undo_brings_them_back(live):
    page = live("view=hands-on")
    before = shown_loss(page)
    right = step_numbers(example("decoder"))
    np.testing.assert_allclose(before, right["loss:y"], rtol=1e-6)
    page.script("""
        const list = document.querySelector('#view-hands-on [data-key=which-bug]');
        list.selectedIndex = [...list.options].findIndex((option) => option.value === 'no-scale');
        list.dispatchEvent(new Event('change'));""")
    page.wait("return document.querySelector('#view-hands-on [data-key=which-bug]').value === 'no-scale'")
    page.click("#plant-bug")
    page.wait("return Number(document.querySelector('#header .loss').dataset.value) !== arguments[0]", before)
    broken = copy.copy(example("decoder"))
    broken.model = copy.deepcopy(broken.model)
    nt.zoo.apply("no-scale", broken.model)
    wrong = step_numbers(broken)
    np.testing.assert_allclose(shown_loss(page), wrong["loss:y"], rtol=1e-6)
    assert "scores" in page.settle().text("#view-hands-on")                # where it went wrong is named
    numbers_agree(page, wrong, REFS)
    page.go("view=hands-on")
    page.click("#view-hands-on [data-edit=undo]")
    page.wait("return Number(document.querySelector('#header .loss').dataset.value) === arguments[0]", before)
    numbers_agree(page, right, REFS)
    assert page.errors() == []


def test_a_step_of_sgd_lowers_the_loss_as_the_formula_says(live):
    page = live("view=hands-on")
    before = shown_loss(page)
    page.script("document.querySelector('#hands-lr').value = '0.05';"
                "document.querySelector('#hands-lr').dispatchEvent(new Event('input'));")
    page.click("#take-step")
    page.wait("return Number(document.querySelector('#header .loss').dataset.value) < arguments[0]", before)
    moved = copy.copy(example("decoder"))
    moved.model = copy.deepcopy(moved.model).astype(np.float64)
    gradients = step_numbers(example("decoder"))
    for name, parameter in moved.model.named_parameters():
        parameter.data = parameter.data - 0.05 * gradients[f"grad {name}"]
    np.testing.assert_allclose(shown_loss(page), step_numbers(moved)["loss:y"], rtol=1e-5)


@pytest.mark.parametrize("ref", ["decoder.blocks.0.attention.query.weight", "decoder.blocks.0.norm1:y", "embedding.weight",
                                 "decoder.blocks.1.attention.attention.softmax:y"])
def test_a_nudge_agrees_with_backward_to_1e_6(live, ref):
    gradient = step_numbers(example("decoder"))[f"grad {ref}"]
    cell = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
    page = live()
    page.go(f"op={page.op_of(ref)}&ref=grad {ref}&cell={','.join(map(str, cell))}")
    page.find(".path-list")                     # the last thing that the panel draws
    page.click("#nudge")
    numeric = float(page.find("#proof dd.is-numeric").get_attribute("data-value"))
    np.testing.assert_allclose(numeric, gradient[cell], rtol=1e-6)
    plus, minus = (float(number) for number in page.script(
        "return [...document.querySelectorAll('#proof dd.is-loss')].map((number) => number.dataset.value)"))
    assert plus != minus and abs(plus - shown_loss(page)) < 1e-3


def test_the_page_survives_the_end_of_its_server(driver):
    """The command itself: it prints an address, and Ctrl-C ends it with a line and no traceback."""
    command = [sys.executable, "-u", "-m", "numpy_transformer", "explore", "--model", "classifier", "--random", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True)
    try:
        first = process.stdout.readline()
        page = Page(driver).open(re.search(r"http://127\.0\.0\.1:\d+/[\w-]{16,}/", first)[0])
        loss = shown_loss(page)
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert "Traceback" not in printed + errors and len((printed + errors).splitlines()) <= 3
    write(page, "#text", "the film was dull" + Keys.ENTER)
    assert "ended" in page.wait("return document.querySelector('#status').innerText")
    assert shown_loss(page) == loss
    page.go("op=loss&ref=loss:y")
    assert page.find("#view-component [data-op=loss]")


# From outside, as other programs and other sites would ask.

@pytest.mark.parametrize("change, status", [
    ({}, 200), ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Host": "evil.example"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403), ({"token": "wrong"}, 403), ({"token": ""}, 403),
    ({"Content-Type": "text/plain"}, 415), ({"body": b" " * 1_000_000 + b"{}"}, 413), ({"method": "GET"}, 405)])
def test_only_the_page_is_answered(server, change, status):
    place = urllib.parse.urlsplit(server.address)
    body = change.pop("body", json.dumps({"edits": []}).encode())
    token = change.pop("token", place.path.strip("/"))
    method = change.pop("method", "POST")
    headers = {"Content-Type": "application/json", "Host": place.netloc, "Origin": f"http://{place.netloc}", **change}
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
    connection.request(method, f"/{token}/api/document".replace("//", "/"), body, headers)
    answer = connection.getresponse()
    said = json.loads(answer.read())
    connection.close()
    assert answer.status == status, said
    assert ("arrays" in said) == (status == 200) and (status == 200 or said["error"].count("\n") == 0)


def test_a_page_of_another_site_gets_no_answer(driver, server, tmp_path, monkeypatch):
    """It knows the token, and the browser sends what it asks; neither an answer nor a computation comes of it."""
    (tmp_path / "evil.html").write_text("<!doctype html><title>evil</title>")
    driver.get((tmp_path / "evil.html").as_uri())
    computed = []
    monkeypatch.setattr(server.session, "document", lambda edits=(): computed.append(edits))
    for mode, kind in (("cors", "application/json"), ("no-cors", "text/plain")):
        answer = Page(driver).run("""
            const options = { method: "POST", mode: given[1], headers: { "Content-Type": given[2] }, body: '{"edits": []}' };
            try { return (await (await fetch(given[0], options)).text()).length; } catch (error) { return -1; }""",
            f"{server.address}api/document", mode, kind)
        assert answer in (-1, 0)
    assert not computed

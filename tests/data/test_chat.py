from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainwright.data.chat import ChatTemplate, Rendered, TemplateError

SPECIAL = {"bos": "<s>", "eos": "</s>"}
ENDS = ("<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>")
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Capital of France?"},
    {"role": "assistant", "content": "Paris."},
    {"role": "user", "content": "Of Spain?"},
    {"role": "assistant", "content": "Madrid."},
]

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' "
    "+ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
MARKED = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}"
    "{% if message.role == 'assistant' %}{% generation %}{{ message.content + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
)
INSTRUCT = (  # no header for the assistant, alternation enforced, end-of-text behind each answer
    "{{ bos_token }}{% for message in messages %}"
    "{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if message.role == 'user' %}{{ '[INST] ' + message.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + message.content + eos_token }}{% endif %}{% endfor %}"
)
FORGETS = (  # drops the reasoning of all turns but the last, as reasoning models' templates do
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}"
    "{% if message.role == 'assistant' and not loop.last %}{{ message.content.split('</think>')[-1] }}"
    "{% else %}{{ message.content }}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
HEADERLESS = "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
BACKWARDS = "{% for m in messages|reverse %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"


def said(rendered: Rendered) -> list[str]:
    return [rendered.text[start:end] for start, end in rendered.spans]


def test_a_template_without_marks_teaches_the_assistant_turns_with_the_token_that_ends_them() -> None:
    (rendered,) = ChatTemplate(CHATML, SPECIAL, ENDS).render(TALK)
    assert said(rendered) == ["Paris.<|im_end|>", "Madrid.<|im_end|>"]
    assert rendered.text.startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user")


def test_a_template_with_generation_marks_teaches_what_is_marked() -> None:
    (rendered,) = ChatTemplate(MARKED, SPECIAL, ENDS).render(TALK)
    assert said(rendered) == ["Paris.<|im_end|>", "Madrid.<|im_end|>"]
    assert "\x00" not in rendered.text


def test_marked_and_unmarked_templates_of_one_text_agree() -> None:
    marked, plain = (ChatTemplate(source, SPECIAL, ENDS).render(TALK) for source in (MARKED, CHATML))
    assert marked == plain


def test_a_template_without_a_header_for_the_assistant_works() -> None:
    (rendered,) = ChatTemplate(INSTRUCT, SPECIAL, ENDS).render(TALK[1:])
    assert rendered.text == "<s>[INST] Capital of France? [/INST] Paris.</s>[INST] Of Spain? [/INST] Madrid.</s>"
    assert said(rendered) == [" Paris.</s>", " Madrid.</s>"]


def test_a_template_that_ignores_the_generation_prompt_teaches_the_header_too() -> None:
    (rendered,) = ChatTemplate(HEADERLESS, SPECIAL, ENDS).render(TALK[1:3])
    assert said(rendered) == ["assistant: Paris.\n"]


def test_a_template_that_rewrites_earlier_turns_gives_each_turn_as_the_model_will_see_it() -> None:
    talk = [
        {"role": "user", "content": "1+1?"},
        {"role": "assistant", "content": "<think>easy</think>2"},
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "<think>also</think>4"},
    ]
    first, second = ChatTemplate(FORGETS, SPECIAL, ENDS).render(talk)
    assert said(first) == ["<think>easy</think>2<|im_end|>"]
    assert said(second) == ["<think>also</think>4<|im_end|>"]
    assert "easy" not in second.text
    assert "2<|im_end|>" in second.text


def test_a_template_in_which_turns_cannot_be_found_is_refused_with_the_way_out() -> None:
    with pytest.raises(TemplateError, match=r"\{% generation %\}.*data.chat_template"):
        ChatTemplate(BACKWARDS, SPECIAL, ENDS).render(TALK)


def test_a_first_assistant_turn_is_taught_even_when_the_template_refuses_an_empty_conversation() -> None:
    source = "{{ messages[0].role + raise_exception('empty') if not messages else '' }}" + CHATML
    (rendered,) = ChatTemplate(source, SPECIAL, ENDS).render([{"role": "assistant", "content": "Hello"}])
    assert said(rendered)[0].endswith("Hello<|im_end|>")


def test_what_the_template_says_about_a_bad_conversation_is_passed_on() -> None:
    with pytest.raises(TemplateError, match="roles must alternate"):
        ChatTemplate(INSTRUCT, SPECIAL, ENDS).render(TALK)


def test_a_conversation_without_an_assistant_is_refused() -> None:
    with pytest.raises(TemplateError, match="no assistant turn"):
        ChatTemplate(CHATML, SPECIAL, ENDS).render(TALK[:2])


def test_a_syntax_error_names_the_line() -> None:
    with pytest.raises(TemplateError, match="line 2 of the chat template"):
        ChatTemplate("\n{% if %}", SPECIAL, ENDS)


def test_tools_reach_the_template_and_json_is_not_escaped() -> None:
    source = "{{ tools | tojson }}\n" + CHATML
    (rendered,) = ChatTemplate(source, SPECIAL, ENDS).render(TALK, [{"name": "<f>"}])
    assert rendered.text.startswith('[{"name": "<f>"}]')


def test_a_template_cannot_reach_the_machine() -> None:
    source = "{{ messages.__class__.__mro__[1].__subclasses__() }}" + CHATML
    with pytest.raises(TemplateError, match="unsafe"):
        ChatTemplate(source, SPECIAL, ENDS).render(TALK)


@pytest.mark.parametrize("source", [CHATML, MARKED, INSTRUCT, FORGETS])
def test_the_text_is_what_transformers_renders(source: str, model: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    reference = transformers.PreTrainedTokenizerFast(tokenizer_file=str(model / "tokenizer.json"), **{
        f"{role}_token": text for role, text in SPECIAL.items()
    })  # fmt: skip
    talk = TALK[1:]
    theirs: Any = reference.apply_chat_template(talk, chat_template=source, tokenize=False)
    assert ChatTemplate(source, SPECIAL, ENDS).render(talk)[-1].text == theirs


def test_the_mask_of_a_marked_template_is_that_of_transformers(model: Path) -> None:
    transformers = pytest.importorskip("transformers")
    reference = transformers.PreTrainedTokenizerFast(tokenizer_file=str(model / "tokenizer.json"))
    theirs: Any = reference.apply_chat_template(
        TALK, chat_template=MARKED, return_dict=True, return_assistant_tokens_mask=True
    )
    from trainwright.data.encode import Encoder, EncoderSettings, Row
    from trainwright.data.rows import Conversation

    ours = Encoder(EncoderSettings(model, "causal", MARKED)).encode_batch([Row(0, 1, Conversation(list(TALK)))])
    assert ours.ids.tolist() == theirs["input_ids"]
    assert ours.loss is not None
    assert ours.loss.tolist() == theirs["assistant_masks"]


def test_a_template_that_prints_the_date_prints_the_same_one_every_day() -> None:
    template = ChatTemplate(
        "{{ strftime_now('%d %b %Y') }}{% for m in messages %}{{ m.content }}{% endfor %}", {}, ()
    )
    (found,) = template.render([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    assert found.text == "01 Jan 2025ab"

"""Chat templates of the kinds that families ship, in our own wording; the marks are the tiny tokenizer's."""

from __future__ import annotations

from copy import deepcopy

from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from tests.support import tiny_tokenizer

BOS = "<|endoftext|>"
ALTERNATES = (
    "{% for message in messages %}{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('turns must alternate') }}{% endif %}{% endfor %}"
)
REFUSES_SYSTEM = (
    "{% for message in messages %}{% if message.role == 'system' %}{{ raise_exception('no system turn') }}{% endif %}"
    "{% endfor %}"
)

LLAMA_3 = (  # writes the first token, trims, takes turns in any order
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ message.role }}<|im_end|>\n\n"
    "{{ message.content | trim }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant<|im_end|>\n\n{% endif %}"
)
LLAMA_3_2 = (  # as above, and writes the date, which may be given
    "{{ bos_token }}{%- if not date_string is defined %}{%- if strftime_now is defined %}"
    "{%- set date_string = strftime_now('%d %b %Y') %}{%- else %}{%- set date_string = '26 Jul 2024' %}{%- endif %}"
    "{%- endif %}Today Date: {{ date_string }}\n" + LLAMA_3.removeprefix("{{ bos_token }}")
)
LLAMA_2 = (  # takes a system turn into the first user turn, then wants strict alternation
    "{% if messages[0].role == 'system' %}{% set rules = messages[0].content %}{% set messages = messages[1:] %}"
    "{% endif %}" + ALTERNATES + "{% for message in messages %}"
    "{% if message.role == 'user' %}{{ bos_token }}[INST] "
    "{% if loop.first and rules is defined %}<<SYS>>{{ rules }}<</SYS>> {% endif %}{{ message.content }} [/INST]"
    "{% else %} {{ message.content }} {{ eos_token }}{% endif %}{% endfor %}"
)
MISTRAL = (  # refuses a system turn, alternates strictly, opens no turn
    "{{ bos_token }}" + ALTERNATES + "{% for message in messages %}"
    "{% if message.role == 'user' %}[INST] {{ message.content }} [/INST]"
    "{% else %}{{ message.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
GEMMA = (  # refuses a system turn, alternates strictly, has another name for the assistant
    "{{ bos_token }}" + REFUSES_SYSTEM + ALTERNATES + "{% for message in messages %}"
    "<|im_start|>{{ 'model' if message.role == 'assistant' else message.role }}\n"
    "{{ message.content | trim }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>model\n{% endif %}"
)
PHI_3 = (  # knows two roles and leaves all others out without a word
    "{% for message in messages %}{% if message.role in ('user', 'assistant') %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QWEN_2 = (  # speaks for itself where no system turn is given
    "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are a teapot.<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QWEN_3 = (  # thinks unless told not to, and forgets earlier thoughts
    "{% for message in messages %}{% set words = message.content %}"
    "{% if message.role == 'assistant' and '</think>' in words %}{% set words = words.split('</think>')[-1] %}"
    "{% endif %}"
    "<|im_start|>{{ message.role }}\n{{ words }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
DEEPSEEK = (  # thinks only if told to
    "{{ bos_token }}{% if thinking is not defined %}{% set thinking = false %}{% endif %}{% for message in messages %}"
    "[{{ message.role }}]{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{{ '<think>' if thinking else '</think>' }}{% endif %}"
)

TOOLS = (  # shows tools, and writes a call as JSON behind a mark
    "{% if tools %}<|im_start|>system\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{% for call in message.tool_calls or [] %}@do\n"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}\n@end{% endfor %}'
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MISTRAL_TOOLS = (  # a list of calls behind a special token; refuses other ids than of nine characters
    "{{ bos_token }}{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}"
    "{% for message in messages %}{% if message.role == 'user' %}[INST] {{ message.content }}[/INST]"
    "{% elif message.tool_calls %}<|im_start|>[{% for call in message.tool_calls %}"
    "{% if call.id | length != 9 %}{{ raise_exception('ids have length 9') }}{% endif %}"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}, "id": "{{ call.id }}"}'
    "{% endfor %}]{{ eos_token }}{% else %}{{ message.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
LLAMA_TOOLS = (  # a call is the whole turn, and a tool's result is written as JSON
    "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n\n{% if message.tool_calls %}"
    '{"name": "{{ message.tool_calls[0].function.name }}", '
    '"parameters": {{ message.tool_calls[0].function.arguments | tojson }}}'
    "{% elif message.role == 'tool' %}{{ message.content | tojson }}{% else %}{{ message.content | trim }}{% endif %}"
    "<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n\n{% endif %}"
)
XML_TOOLS = TOOLS.replace('{"name": "', "<").replace('", "arguments": ', ">").replace("tojson }}}", "length }}")


def tokenizer_with(template: str | None, *, bos: bool = True, adds: bool = False) -> PreTrainedTokenizerFast:
    """The tiny tokenizer with another template; with a first token, which it `adds` to every plain text or not."""
    tokenizer = deepcopy(tiny_tokenizer())
    tokenizer.chat_template = template
    if bos:
        tokenizer.bos_token = BOS
    if adds:
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{BOS} $A", special_tokens=[(BOS, 0)]
        )
    return tokenizer

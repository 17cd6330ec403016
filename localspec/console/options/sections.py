"""The sections of options in a command's help: its own first, memory and GPUs last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from localspec.core.sampling.lists import LISTS
from localspec.core.sampling.parameters import PARAMETERS

OWN = "Options"  # those that no other section has

REPLY = """
    max_tokens temperature top_p top_k min_p seed stop ban reasoning_budget
    reasoning_budget_message repetition_penalty presence_penalty frequency_penalty
    repeat_last_n logit_bias ignore_end
"""
SAMPLING = (*(parameter.names[0] for parameter in PARAMETERS), *(texts.name for texts in LISTS))
SECTIONS: Mapping[str, Sequence[str]] = {
    title: names.split()
    for title, names in {
        OWN: "help help_all",
        "Reply": REPLY,
        "Samplers": " ".join(name for name in SAMPLING if name not in REPLY.split()),
        "Address": "host port unix tls_cert tls_key prefix",
        "Access": "api_key api_key_file allow_host allow_origin manage insecure",
        "Requests": "slots queue max_gap time_limit body_limit strict response_store",
        "Pictures": "max_images max_image_size max_image_pixels fetch_images",
        "Prompt cache": "cache_ram cache_dir cache_size read_ahead",
        "Log": "log_file log_prompts",
        "Model": "context backend mmproj no_mmproj adapter bit_exact",
        "Speculation": """
            draft proposer depth prediction corpus learn plain draft_context draft_device
            draft_gpu_layers draft_kv_type draft_threads
        """,
        "Engine, memory and GPUs": """
            device budget kv_type gpu_layers cpu_moe split split_mode main_gpu workers threads
            threads_batch batch micro_batch flash_attention mmap mlock direct_io products
            no_mmproj_offload verbose
        """,
    }.items()
}
RARE = ("Samplers",)  # sections that few readers of --help look for
ALL = "localspec.help_all"  # whether help was asked for with all sections


def print_all_help(context: click.Context, _: click.Parameter, requested: bool) -> None:
    """Print the help with all sections, and exit."""
    if requested and not context.resilient_parsing:
        context.meta[ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    allow_from_autoenv=False,
    callback=print_all_help,
    help="Show this message with all samplers, and exit.",
)
_SECTION_OF = {name: title for title, names in SECTIONS.items() for name in names}
_PLACES = {name: at for names in SECTIONS.values() for at, name in enumerate(names)}


class SectionedCommand(click.Command):
    """Shows its options in sections, those for experts only with --help-all."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Add --help-all where there are options that --help leaves out."""
        params = super().get_params(ctx)
        if not any(_SECTION_OF.get(parameter.name or "") in RARE for parameter in params):
            return params
        return [*params, HELP_ALL]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shows_all = ctx.meta.get(ALL, False)
        rows: dict[str, list[tuple[int, tuple[str, str]]]] = {title: [] for title in SECTIONS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and parameter.param_type_name == "option":
                name = parameter.name or ""
                rows[_SECTION_OF.get(name, OWN)].append((_PLACES.get(name, -1), record))
        for title, records in rows.items():
            if records and (shows_all or title not in RARE):
                records.sort(key=lambda row: row[0])  # own options as they are declared
                with formatter.section(title):
                    formatter.write_dl([record for _, record in records])

"""How the documentation is built: ``python3 tasks.py docs``. Nothing is fetched, at build or at view."""

import re
import sys
from pathlib import Path

import latentia

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "Latentia"
author = "Latentia developers"
copyright = author
version = release = latentia.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "code_links",
]
exclude_patterns = ["_build", "tests", "**sg_execution_times.rst"]
templates_path = ["_templates"]

# Text
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_inline"]
myst_heading_anchors = 4
myst_all_links_external = False
html_math_renderer = "mathml"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
default_role = "literal"
suppress_warnings = ["config.cache"]

# Reference
autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_validation_checks = {"EX01"}
numpydoc_validation_exclude = {r"latentia\.\w+\.\w+", r"^(?!latentia\.)"}

# Gallery
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"every_display",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "min_reported_time": 1,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "doc_module": ("latentia",),
    "reference_url": {"latentia": None},
    "backreferences_dir": "gallery/backreferences",
    "copyfile_regex": r".*\.csv",
    "image_srcset": ["2x"],
    "plot_gallery": "True",
    "parallel": 2,
    "remove_config_comments": True,
}

# Pages
html_theme = "pydata_sphinx_theme"
html_title = "Latentia"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_search_scorer = str(HERE / "_ext" / "search_scorer.js")
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "Latentia"},
    "show_prev_next": True,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "navigation_depth": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": False,
}
html_sidebars = {page: [] for page in ("index", "quick_start", "which_model", "source/**")}

# Pages of the repository that are pages of the site, too
REPOSITORY_PAGES = {
    "contributing": "CONTRIBUTING.md",
    "changelog": "CHANGELOG.md",
    "benchmarks": "benchmarks/README.md",
    "arena": "benchmarks/results/arena.md",
}


def read_repository_page(app, docname, source):
    """The text of the repository's file, its links as seen from here."""
    if docname not in REPOSITORY_PAGES:
        return
    text = (HERE.parent / REPOSITORY_PAGES[docname]).read_text(encoding="utf-8")
    text = re.sub(r"\]\((?:\.\./)?docs/", "](", text)
    for page, file in REPOSITORY_PAGES.items():
        text = text.replace(f"]({file})", f"]({page}.md)")
    source[0] = text


def leave_out_foreign_members(app, what, name, obj, skip, options):
    """Methods that scikit-learn documents, such as `set_output` and requests of metadata."""
    foreign = (getattr(obj, "__module__", None) or "").startswith("sklearn")
    return True if foreign or re.fullmatch(r"set_\w+_request", name) else None


def setup(app):
    app.connect("source-read", read_repository_page)
    app.connect("autodoc-skip-member", leave_out_foreign_members)

"""How numba compiles kernels and their parts: machine code is made once, of a whole kernel.

Numba treats every function alike. For each it links in all that the function calls, optimises the whole and makes
machine code of it, and it does so again for every combination of argument types. A part of a part of a kernel is thus
optimised three times, and nobody ever runs the first two. Here

- a part ends as LLVM code (`PartCompiler`); only a kernel is optimised and becomes machine code (`KernelCompiler`);
- calls inside kernels convert integers to 64 bits and forget literals (`CallTypes`), so that a part is compiled once
  and not for each width and constant that it is called with. Arithmetic on int32 yields int64 in numba anyway, and
  LLVM finds the constants again where it inlines the part;
- a kernel is optimised once (`_Library`).

What is done here decides what code a kernel has, so `jit` counts this file among the sources of every kernel.
"""

from __future__ import annotations

from typing import Any

from numba import _dynfunc, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.environment import lookup_environment
from numba.core.typed_passes import NativeLowering

_ENVIRONMENT = "_ZN08NumbaEnv"  # the names of environments, numba's constants of a function, begin so


class CallTypes(_FunctionCompiler):
    """Chooses for which types of arguments a function is compiled when another compiled function calls it."""

    def fold_argument_types(self, args: Any, kws: Any) -> Any:
        """Return the Python signature, and the types for which a call with arguments of these types is compiled."""
        signature, folded = super().fold_argument_types(args, kws)
        return signature, tuple(map(_widened, folded))


def _widened(given: Any) -> Any:
    plain = types.unliteral(given)
    return types.int64 if plain == types.int32 else plain


class _Library(JITCodeLibrary):
    """Numba's, except that functions which are only declared are not simplified: they have no code."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        """Optimise a kernel once, where numba does it twice: first so that it can drop what counts references, of which
        kernels on flat arrays have little."""
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class _PartLibrary(_Library):
    """The LLVM code of a part and of all that it calls: to be linked into kernels, never run by itself."""

    def finalize(self) -> None:
        """Link in what the part calls."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):
    """Lowers a part to LLVM code."""

    _name = "covey_part_lowering"

    def run_pass(self, state: Any) -> bool:
        context = state.targetctx
        state.library = library = _PartLibrary(context.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        described = lowered.fndesc
        # Numba knows a compiled function by its entry point. That of a part leads nowhere, as it has no machine code.
        name = described.qualname.rpartition(".")[2]
        entry = _dynfunc.make_function(described.lookup_module(), name, "", 0, lowered.env, (library,))
        context.insert_user_function(entry, described, [library])
        state["cr"] = lowered._replace(cfunc=entry)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _KernelLowering(NativeLowering):
    """Lowers a kernel to machine code, and sets the environments of its parts, which no one else has."""

    _name = "covey_kernel_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        library.enable_object_caching()
        super().run_pass(state)
        for variable in library._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    library.codegen.set_env(variable.name, environment)
        return True


class _Compiler(CompilerBase):
    """Numba's pipeline without Python objects, with another lowering."""

    lowering: type[NativeLowering]

    def define_pipelines(self) -> list[Any]:
        """Return the only pipeline."""
        passes = PassManager(type(self).__name__)
        for one, purpose in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
            passes.add_pass(self.lowering if one is NativeLowering else one, purpose)
        passes.finalize()
        return [passes]


class PartCompiler(_Compiler):
    """Compiles a part."""

    lowering = _PartLowering


class KernelCompiler(_Compiler):
    """Compiles a kernel."""

    lowering = _KernelLowering

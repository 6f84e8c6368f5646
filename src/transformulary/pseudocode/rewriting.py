"""Trees of Python rewritten without a copy: what a rewriting leaves alone is shared with the tree that was read."""

from __future__ import annotations

import ast
from typing import Any, TypeVar

N = TypeVar("N", bound=ast.AST)


class Rewriter:
    """Visits a tree as `ast.NodeTransformer` does, by the methods `visit_Name`..., but changes no node in place.

    A method returns what takes the place of its node, several statements for one as a list; where there is no
    method, the parts of a node are visited.
    """

    def visit(self, node: ast.AST) -> Any:
        """What takes the place of a node."""
        if not node._fields:  # an operator, or Load and Store
            return node
        method = getattr(self, f"visit_{type(node).__name__}", self.parts)
        return method(node)

    def parts(self, node: ast.AST) -> Any:
        """A node with its parts visited: itself if these stay what they are."""
        changed = {}
        for name in node._fields:
            old = getattr(node, name, None)
            new = self._all(old) if isinstance(old, list) else self.visit(old) if isinstance(old, ast.AST) else old
            if new is not old:
                changed[name] = new
        return replaced(node, **changed) if changed else node

    def _all(self, nodes: list[Any]) -> list[Any]:
        new: list[Any] = []
        for node in nodes:
            found = self.visit(node) if isinstance(node, ast.AST) else node
            new += found if isinstance(found, list) else [found]
        return nodes if len(new) == len(nodes) and all(a is b for a, b in zip(new, nodes, strict=True)) else new


def written(node: ast.AST) -> str:
    """A node as `ast.unparse` writes it, names at once: they are most of what is asked for."""
    return node.id if isinstance(node, ast.Name) else ast.unparse(node)


def replaced(node: N, **parts: Any) -> N:
    """The same node at the same place of the source, with other parts."""
    return type(node)(**{**vars(node), **parts})

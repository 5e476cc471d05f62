"""A defense that needs the teacher and an inner attack."""

from fgai_bench.defenses import Defense, Objective
from fgai_bench.defenses.base import perturbed_output
from fgai_bench.losses import tvd


class Gentle(Defense):
    """Stays close to the teacher, on the graph and under the inner attack."""

    summary = "close to the teacher, attacked or not"
    paper = "https://example.org/gentle"
    version = "7"
    tags = ("node", "needs-teacher", "needs-inner")
    inner_options = {"loss": "tvd", "targets": "all"}  # noqa: RUF012
    starts_from = "teacher"

    def __init__(self, weight: float = 0.5) -> None:
        self.weight = weight

    def objective(self, fit):
        teacher = fit.required("teacher")(fit.data).logits.detach()
        attack, _ = fit.attack()

        def terms(epoch):
            h = fit.student.embed(fit.data.x)
            attacked = perturbed_output(fit.student, h, attack(epoch)).logits[: len(teacher)]
            return {
                "closeness": tvd(fit.student.propagate(h, fit.data.edge_index).logits, teacher),
                "attacked": self.weight * tvd(attacked, teacher),
            }

        return Objective(terms, keep="last")

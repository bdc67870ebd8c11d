"""What the other processes of a team do while one leads."""

from rda.training.status import STATES, Status
from rda.training.stepper import Stepper
from rda.training.team import Order


def follow(stepper: Stepper) -> Status:
    """Do what the leader of a team says until it ends."""
    team = stepper.team
    while True:
        order, step = team.hear()
        if order == Order.STEP:
            stepper.step()
            if stepper.full:
                stepper.fetch()
        elif order in (Order.VALIDATE, Order.TEST):
            stepper.evaluate("validation" if order == Order.VALIDATE else "test")
        elif order == Order.GATHER:
            stepper.whole_state()
        elif order == Order.LOAD:
            stepper.use(None)
        elif order == Order.RESTORE:
            stepper.restore(None, step)
        else:
            return Status(state=STATES[step])

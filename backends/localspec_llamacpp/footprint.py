"""stub"""
from localspec_llamacpp.header import read
from localspec_llamacpp.hyperparameters import Hyperparameters
from localspec_llamacpp.checks import check_sizes, check_layers
from localspec_llamacpp.layers import resolve
from localspec_llamacpp.architectures import NOT_GENERATIVE
def inspect(path):
    h=read(path); a=h.text('general.architecture')
    if a in NOT_GENERATIVE: h.refuse('not generative')
    p=Hyperparameters(h,a); check_sizes(p); l=resolve(p); check_layers(p,l)

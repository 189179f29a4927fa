#!/bin/sh
# Trains the translator of everyday sentences, which the one that ships starts from, stage after stage (docs/training.md explains the stages):
#   scripts/train_everyday.sh DATA [CONFIGS [RUNS]]
# Started again, it resumes where it stopped. PYTHON names the interpreter; the corpora must be packed with xz.
set -eu

data=${1:?"usage: $0 DATA [CONFIGS [RUNS]]"}
configs=${2:-configs}
runs=${3:-runs}
python=${PYTHON:-python}
stages=$configs/verso-en-de

# A run that has its averaged.pt is finished.
train() {
    name=$1
    shift
    [ -e "$runs/$name/averaged.pt" ] || "$python" -m model train --run "$runs/$name" "$@"
}

# Translates one side of Tatoeba with the sibling.
translate() {
    source=$1 target=$2 made=$runs/data/made/$3
    [ -e "$made.$target" ] && return
    xz -dc "$data/train/tatoeba.$source.xz" > "$made.$source"
    "$python" -m model translate --model "$runs/sibling/int8.pt" --source "$source" --target "$target" --beam-size 4 \
        < "$made.$source" > "$made.part"
    mv "$made.part" "$made.$target"
}

train stem --config "$stages/stem.yaml" --data "$data"

# The sibling resumes at the end of the stem, with its own settings.
mkdir -p "$runs/sibling"
[ -e "$runs/sibling/last.pt" ] || cp "$runs/stem/last.pt" "$runs/sibling/last.pt"
train sibling --config "$stages/sibling.yaml" --data "$data"
[ -e "$runs/sibling/int8.pt" ] ||
    "$python" -m model export --checkpoint "$runs/sibling/averaged.pt" --precision int8 --out "$runs/sibling/int8.pt"

# The folder of the corpora may be read-only: generated corpora are beside links to it.
mkdir -p "$runs/data/made"
for part in train eval; do
    ln -sfn "$(cd "$data/$part" && pwd)" "$runs/data/$part"
done
translate en de forward
translate de en backward

train middle --config "$stages/middle.yaml" --data "$data" --init-from "$runs/stem/last.pt"
train verso-en-de --config "$configs/verso-en-de.yaml" --data "$runs/data" --init-from "$runs/middle/last.pt"
train chat --config "$stages/chat.yaml" --data "$data" --init-from "$runs/sibling/averaged.pt"
"$python" -m model publish --checkpoint "$runs/verso-en-de/averaged.pt" "$runs/chat/averaged.pt" --out "$runs/verso-en-de.pt"

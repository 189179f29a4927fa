#!/bin/sh
# Makes the text of the translator of general text and trains it, stage after stage (docs/training.md):
#   scripts/train_shipped.sh DATA [CONFIGS [RUNS]]
# from the root of the repository. Started again, it resumes where it stopped. PYTHON names the interpreter.
set -eu

data=${1:?"usage: $0 DATA [CONFIGS [RUNS]]"}
configs=${2:-configs}
runs=${3:-runs}
python=${PYTHON:-python}
stages=$configs/verso-en-de
# The folder of the corpora may be read-only: what is made from them is here, beside links to them.
work=$runs/data

# The run starts from this model, which also makes the first back-translation and finds the worst pairs: by default the
# translator of everyday sentences, which is trained first if it does not exist. The chrF2 that a round trip of the second
# back-translation must reach, and the share that is dropped, were not compared with others.
first_model=${FIRST_MODEL:-$runs/everyday/verso-en-de.pt}
[ -n "${FIRST_MODEL:-}" ] || [ -e "$first_model" ] || "$(dirname "$0")/train_everyday.sh" "$data" "$configs" "$runs/everyday"
round_trip=30
dropped=0.1

# Writes the configuration $1 beside the vocabulary that it names, without corpora that DATA lacks.
configure() {
    "$python" -m scripts.shipped.configuration --data "$data" --config "$stages/$1.yaml" --out "$work/$1.yaml"
}

# train NAME [OPTION ...]. A run that has its averaged.pt is finished.
train() {
    name=$1
    shift
    configure "$name"
    [ -e "$runs/$name/averaged.pt" ] ||
        "$python" -m model train --run "$runs/$name" --config "$work/$name.yaml" --data "$work" "$@"
}

# Makes $1/tatoeba-en from mono/tatoeba.en, where $2 is tatoeba, $3 is en and $4 is de; $1/tatoeba-en.en comes last. Nothing is made
# from text that DATA lacks.
back_translate() {
    made=$work/$1/$2-$3 set=$2.$3 target=$4 natural=$3
    shift 4
    [ -e "$made.$natural" ] || grep -qs "^$set:" "$data/absent.txt" ||
        "$python" -m scripts.shipped.back_translate --text "$data/mono/$set" --to "$target" --out "$made" \
            --held-out "$work/dev" "$@"
}

mkdir -p "$work"
for part in eval mono; do
    ln -sfn "$(cd "$data/$part" && pwd)" "$work/$part"
done

# Takes seconds, so it is not skipped when it is done.
"$python" -m scripts.shipped.held_out --data "$data" --out "$work" --checksums "$stages/held-out.sha256"

back_translate bt1 tatoeba en de --model "$first_model" --sentences 60000
back_translate bt1 common-voice en de --model "$first_model"
back_translate bt1 wikipedia en de --model "$first_model" --sentences 39000
back_translate bt1 dialogues en de --model "$first_model" --sentences 40000
back_translate bt1 common-voice de en --model "$first_model"
back_translate bt1 klexikon de en --model "$first_model" --sentences 60000
back_translate bt1 wikipedia de en --model "$first_model" --sentences 60000
for name in books history; do  # held_out makes none of what DATA lacks
    [ ! -e "$work/mix/$name.en" ] || [ -e "$work/best/$name.en" ] ||
        "$python" -m scripts.shipped.drop_worst --corpus "$work/mix/$name" --share "$dropped" \
            --model "$first_model" --out "$work/best/$name"
done

# After the back-translation: the vocabulary is learned from all natural text of the configuration.
configure general
[ -e "$work/general-vocabulary.model" ] ||
    "$python" -m scripts.shipped.vocabulary --config "$work/general.yaml" --data "$work" \
        --out "$work/general-vocabulary.model"
train general --init-from "$first_model"

# The better model translates again.
better=$runs/general/int8.pt
[ -e "$better" ] ||
    "$python" -m model export --checkpoint "$runs/general/averaged.pt" --precision int8 --out "$better"
back_translate bt2 wikipedia en de --model "$better" --round-trip "$round_trip" --sentences 25000
back_translate bt2 wikipedia de en --model "$better" --round-trip "$round_trip" --sentences 30000
back_translate bt2 klexikon de en --model "$better" --round-trip "$round_trip" --sentences 25000
back_translate bt2 common-voice en de --model "$better" --round-trip "$round_trip" --sentences 35000
back_translate bt2 common-voice de en --model "$better" --round-trip "$round_trip" --sentences 30000
back_translate bt2 novels de en --model "$better" --round-trip "$round_trip" --sentences 12000
back_translate bt2 tatoeba en de --model "$better" --round-trip "$round_trip" --sentences 60000
back_translate bt2 dialogues en de --model "$better" --round-trip "$round_trip" --sentences 15000

# The same run goes on with the new text; the learning rate is cooled down over its last updates.
mkdir -p "$runs/continued"
[ -e "$runs/continued/last.pt" ] || cp "$runs/general/last.pt" "$runs/continued/last.pt"
train continued

# Text of others that came later, and the text written and translated for this project.
"$python" -m scripts.shipped.add_sets --data "$data" --out "$work"

# The weights of the second run translate a third time.
[ -e "$runs/second.pt" ] || "$python" -m model publish --checkpoint "$runs/continued/averaged.pt" --out "$runs/second.pt"
back_translate bt3 wikipedia en de --model "$runs/second.pt"
back_translate bt3 common-voice en de --model "$runs/second.pt"
back_translate bt3 tatoeba en de --model "$runs/second.pt" --sentences 60000
back_translate bt3 dialogues en de --model "$runs/second.pt" --sentences 30000
back_translate bt3 wikipedia de en --model "$runs/second.pt" --sentences 120000
back_translate bt3 klexikon de en --model "$runs/second.pt" --sentences 60000
back_translate bt3 common-voice de en --model "$runs/second.pt"
back_translate bt3 novels de en --model "$runs/second.pt" --sentences 20000

train focused --init-from "$runs/second.pt"
train cooldown --init-from "$runs/focused/last.pt"
train phrases --init-from "$runs/cooldown/averaged.pt"
train phrases-and-chat --init-from "$runs/phrases/averaged.pt"

# Their mean translates a fourth time, and the text written and translated since is read.
[ -e "$runs/phrases.pt" ] ||
    "$python" -m model publish --checkpoint "$runs/phrases/averaged.pt" "$runs/phrases-and-chat/averaged.pt" --out "$runs/phrases.pt"
back_translate bt4 common-voice en de --model "$runs/phrases.pt" --sentences 6000
back_translate bt4 common-voice de en --model "$runs/phrases.pt" --sentences 6000
back_translate bt4 wikipedia en de --model "$runs/phrases.pt" --sentences 8000
back_translate bt4 wikipedia2 de en --model "$runs/phrases.pt" --sentences 10000
back_translate bt4 openstax en de --model "$runs/phrases.pt" --sentences 10000
back_translate bt4 klexikon de en --model "$runs/phrases.pt" --sentences 8000
back_translate bt4 digitalgov en de --model "$runs/phrases.pt" --sentences 6000
back_translate bt4 wikipedia de en --model "$runs/phrases.pt" --sentences 8000
back_translate bt4 tatoeba en de --model "$runs/phrases.pt" --sentences 8000
back_translate bt4 novels de en --model "$runs/phrases.pt" --sentences 2000
train long --init-from "$runs/phrases.pt"
train finish --init-from "$runs/long/last.pt"

# The weights that ship are the mean of both, with translations of words that the text hardly has.
[ -e "$runs/mean.pt" ] || "$python" -m model publish --checkpoint "$runs/finish/averaged.pt" "$runs/phrases.pt" --out "$runs/mean.pt"
lexicon=$runs/verso-en-de.lexicon.tsv
[ -e "$lexicon" ] || "$python" -m scripts.shipped.lexicon --data "$work" --pair de-en --out "$lexicon"

# Test sets are looked at once.
[ -e "$runs/int8.pt" ] ||
    "$python" -m model export --checkpoint "$runs/mean.pt" --lexicon "$lexicon" --precision int8 --out "$runs/int8.pt"
[ -e "$runs/scores.json" ] ||
    "$python" -m model evaluate --model "$runs/int8.pt" --json "$runs/scores.json" \
        --test "$data/eval/tatoeba-test-v2020-07-28" --test "$data/eval/flores-dev" --test "$data/eval/bcontrast-dev"

"$python" -m model publish --checkpoint "$runs/mean.pt" --scores "$runs/scores.json" --out "$runs/uncalibrated.pt"
# The grades belong to the translations of the weights that are shipped: grade those of other weights again (data/graded/README.md).
set -- --dev "$work/eval/tatoeba-dev" --dev "$work/eval/bcontrast-dev" --dev "$work/eval/flores-dev"
for kind in manuals encyclopaedia-news game apps stories fiction history written passages forward; do
    set -- "$@" --dev "$work/dev/$kind"
done
"$python" -m model calibrate --model "$runs/uncalibrated.pt" --limit 100 "$@" --graded data/graded/en-de.tsv --plot "$runs/reliability.png" --out "$runs/verso-en-de.pt"
"$python" -m model shortlist --model "$runs/verso-en-de.pt" --config "$work/finish.yaml" --data "$work" \
    --out "$runs/verso-en-de.shortlist.npz"

#!/bin/sh
# Each line of the table: a year and what it is.
failed=0
while read -r year wanted; do
    got=$(sh leap.sh "$year")
    if [ "$got" = "$wanted" ]; then
        echo "ok      $year is $wanted"
    else
        echo "FAILED  $year is $wanted, not $got"
        failed=1
    fi
done <<'TABLE'
2023 common
2024 leap
1900 common
2000 leap
TABLE
exit $failed

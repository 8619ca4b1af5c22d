#!/bin/sh
# Says whether a year is a leap year.
year=$1

if [ $((year % 4)) -eq 0 ]; then
    echo leap
else
    echo common
fi

redis-cli ZRANGE '{ledger}:sold' "$(date -d 'today 0:00' +%s)000" +inf BYSCORE |
    while read -r payment; do
        echo "$payment"
        redis-cli HGETALL "{ledger}:payment:$payment" </dev/null | paste - -
    done

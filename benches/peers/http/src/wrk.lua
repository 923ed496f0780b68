-- wrk asks the question of `shop.rs`; with a file of proofs, each request has one of its own.
function init(args)
  wrk.method = "POST"
  wrk.body = args[1]
  wrk.headers["content-type"] = "application/json"
  if not args[3] then return end
  local requests, last = {}, 0
  for proof in io.lines(args[3]) do
    wrk.headers[args[2]] = proof
    requests[#requests + 1] = wrk.format()
  end
  request = function()
    last = last % #requests + 1
    return requests[last]
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format("result %d %d %d %d %d\n", summary.requests, summary.duration, latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end

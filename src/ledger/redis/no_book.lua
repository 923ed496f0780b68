-- No sale is written down for good: it is known for as long as its payment could be shown again.
local function book() end

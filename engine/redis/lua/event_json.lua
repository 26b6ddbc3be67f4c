-- An event as every reader sees it, in JSON, from its stored form and its stamps.
-- wired(body, seq, prev, prefix, wanted) returns the channel of its address and the
-- text, or nothing unless wanted is true or has the channel. It raises an error for
-- a body it cannot read.
local wired
do
  local byte, sub = string.byte, string.sub

  local function number(s, at)
    local value, scale, c = 0, 1, 0
    repeat
      c = byte(s, at)
      value, scale, at = value + (c % 128) * scale, scale * 128, at + 1
    until c < 128
    return value, at
  end

  local function text(s, at)
    local n
    n, at = number(s, at)
    return sub(s, at, at + n - 1), at + n
  end

  local function quote(s) return string.find(s, '[%c"\\]') and cjson.encode(s) or '"' .. s .. '"' end

  -- A time in UTC with milliseconds. The year of the calculation begins in March.
  local function moment(ms)
    local day = floor(ms / 86400000)
    local rest, era = ms - day * 86400000, floor((day + 719468) / 146097)
    local inEra = day + 719468 - era * 146097
    local year = floor((inEra - floor(inEra / 1460) + floor(inEra / 36524) - floor(inEra / 146096)) / 365)
    local inYear = inEra - (365 * year + floor(year / 4) - floor(year / 100))
    local month = floor((5 * inYear + 2) / 153)
    local date = inYear - floor((153 * month + 2) / 5) + 1
    month = month < 10 and month + 3 or month - 9
    if month <= 2 then year = year + 1 end
    return string.format('"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ"', year + era * 400, month, date,
      floor(rest / 3600000), floor(rest / 60000) % 60, floor(rest / 1000) % 60, rest % 1000)
  end

  -- Two letters for 12 bits at a time; those in use are kept, for making texts is dear.
  local letters = {byte('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/', 1, 64)}
  local pairs12 = setmetatable({}, {__index = function(known, x)
    known[x] = string.char(letters[floor(x / 64) + 1], letters[x % 64 + 1])
    return known[x]
  end})
  local function base64(s)
    local out, n, whole = {}, 0, #s - #s % 3
    for i = 1, whole, 3 do
      local a, b, c = byte(s, i, i + 2)
      local low = b % 16
      out[n + 1], out[n + 2] = pairs12[a * 16 + (b - low) / 16], pairs12[low * 256 + c]
      n = n + 2
    end
    if whole < #s then
      local a, b = byte(s, whole + 1, whole + 2)
      local low = (b or 0) % 16
      out[n + 1] = pairs12[a * 16 + ((b or 0) - low) / 16]
      out[n + 2] = b and sub(pairs12[low * 256], 1, 1) .. '=' or '=='
    end
    return table.concat(out)
  end

  local function isJSON(kind)
    if kind == '' then return true end
    kind = string.match(string.lower(kind), '^%s*([^;]-)%s*;') or string.match(string.lower(kind), '^%s*(.-)%s*$')
    return kind == 'application/json' or kind == 'text/json' or sub(kind, -5) == '+json'
  end

  local function attributes(s, at)
    local n, list = 0, {}
    n, at = number(s, at)
    for i = 1, n do
      local name, value
      name, at = text(s, at)
      value, at = text(s, at)
      list[i] = quote(name) .. ':' .. quote(value)
    end
    return '{' .. table.concat(list, ',') .. '}', at
  end

  function wired(s, seq, prev, prefix, wanted)
    assert(byte(s) == 1)
    local id, topic, kind, tenant, key, content, attrs
    local time, at = number(s, 2)
    time = time % 2 == 0 and time / 2 or -(time + 1) / 2
    id, at = text(s, at)
    topic, at = text(s, at)
    kind, at = text(s, at)
    tenant, at = text(s, at)
    local channel = prefix .. tenant .. ':' .. topic .. ':' .. kind
    if wanted ~= true and not wanted[channel] then return end
    key, at = text(s, at)
    content, at = text(s, at)
    attrs, at = attributes(s, at)
    local data = at <= #s and sub(s, at) or ''
    local json = isJSON(content)
    return channel, '{"id":' .. quote(id) .. ',"topic":' .. quote(topic) .. ',"type":' .. quote(kind) .. ',"tenant":' .. quote(tenant)
      .. (key ~= '' and ',"key":' .. quote(key) or '') .. ',"time":' .. moment(time) .. ',"recorded_at":' .. moment(now)
      .. ',"content_type":' .. quote(content == '' and 'application/json' or content)
      .. (json and ',"data":' .. (data == '' and 'null' or data) or ',"data_base64":"' .. base64(data) .. '"')
      .. ',"attributes":' .. attrs .. ',"seq":' .. str(seq) .. (key ~= '' and ',"prev":' .. str(prev) or '') .. '}'
  end
end

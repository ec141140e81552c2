-- JobSubmitPlugins=lua of slurm.conf, beside which this lies. A job whose comment asks for a plan, arnold: tp=8,pp=8,dp=12,
-- begins in ten minutes at the latest: `arnold slurm serve` plans it and lets it begin at once, and where that is dead,
-- the time comes and Slurm starts it by itself. A begin of the user's own is kept in the comment.
local WAIT = 600 -- seconds

function slurm_job_submit(job, partitions, uid)
  local grid, rest = (job.comment or ""):match("^%s*arnold:%s*([^;]*)(.*)$")
  if grid == nil or grid:find("^refused") or (job.req_nodes or "") ~= "" then return slurm.SUCCESS end
  local now, begin = os.time(), tonumber(job.begin_time) or 0
  if begin > now and grid:find("begin=") then return slurm.SUCCESS end -- written by `arnold slurm submit`
  if begin > now then
    job.comment = string.format("arnold: %s,begin=%d%s", (grid:gsub("%s+$", "")), begin, rest)
  end
  job.begin_time = math.max(begin, now) + WAIT
  -- with topology/block a plan may lie in any blocks; the name is there from 25.11 on, as the field is
  local segment = slurm.SPREAD_SEGMENTS and job.segment_size
  if segment and (segment == 0 or segment == slurm.NO_VAL16) then job.segment_size = 1 end
  return slurm.SUCCESS
end

function slurm_job_modify(job, before, partitions, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS

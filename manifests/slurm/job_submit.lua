-- JobSubmitPlugins=lua of slurm.conf; lies beside it. A job whose comment asks for a plan (arnold: tp=8,pp=8,dp=12)
-- begins in ten minutes at the latest; `arnold slurm serve` plans it and lets it begin at once. Where that is dead, the
-- time comes, and Slurm starts the job by itself.
local WAIT = 600 -- seconds

local function wait_for_plan(job)
  local comment = job.comment or ""
  if not comment:find("^%s*arnold:") or comment:find("^%s*arnold: refused") then return end
  if job.req_nodes ~= nil and job.req_nodes ~= "" then return end -- the nodes are chosen already
  local earliest = os.time() + WAIT
  if job.begin_time == nil or job.begin_time == 0 or job.begin_time < earliest then job.begin_time = earliest end
end

function slurm_job_submit(job, partitions, uid)
  wait_for_plan(job)
  return slurm.SUCCESS
end

function slurm_job_modify(job, before, partitions, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS

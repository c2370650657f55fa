import { createLocks, systemClock } from '@locks/core'
import { redis } from '@locks/redis'
import { Redis } from 'ioredis'
import * as scripts from '../packages/redis/dist/scripts.js'
import { ratios, median } from './lib/measure.mjs'
import { randomUUID } from 'node:crypto'
const url = process.argv[2]
const plain = new Redis(url)
const sha = String(await plain.script('LOAD', `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`))
for (const s of [scripts.acquire, scripts.free]) await plain.script('LOAD', s.text)
const N=2000
async function base(){ for (let n=0;n<N;n++){ const v=randomUUID(); await plain.set('p',v,'PX',30000,'NX'); await plain.evalsha(sha,1,'p',v)} }
let k=0
async function raw(c=plain){ for (let n=0;n<N;n++){ const id=`u:${++k}`; await c.evalsha(scripts.acquire.sha,3,'l','t','q',id,30000,0,'{}','','publish','g:',0); await c.evalsha(scripts.free.sha,3,'l','t','q',id,'','publish','g:','ch','numsub')} }
const st = new Redis(url,{socketTimeout:5000})
const ad = redis({url})({clientId:randomUUID(),clock:systemClock,report(){}})
async function adapter(){ for (let n=0;n<N;n++){ const id=`u:${++k}`; const g=await ad.attempt({name:'l2',attemptId:id,owner:id,mode:'exclusive',ttlMs:30000,lockDelayMs:0,willWait:true,metadata:{host:'h',pid:1}}); await ad.release(g)} }
const locks = createLocks(redis({ url })); const lock=locks.lock('l3')
async function full(){ for (let n=0;n<N;n++) await (await lock.acquire()).release() }
for (const [name,f] of Object.entries({raw, rawSocketTimeout:()=>raw(st), adapter, full})) { const r=await ratios(7,N,f,base); console.log(name, r.ratio.toFixed(2), Math.round(median(r.ours)), Math.round(median(r.theirs))) }
await locks.close(); await ad.close(); plain.disconnect(); st.disconnect()

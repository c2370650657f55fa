import { zookeeper } from '@locks/zookeeper'
import { createLocks } from '@locks/core'
import { expect, onTestFinished, test } from 'vitest'
import { expectOneBound, expectRefusedAtOnce } from '../../../conformance/test-support/refusals.ts'
import { lockName, testBed } from './support/bed.ts'

const bed = testBed()

test('a missing chroot is refused at once', async () => {
  const servers = `${bed.servers}/no-such-chroot`
  const missing = /chroot of the url is missing.*create it/
  await expectRefusedAtOnce(zookeeper({ servers }), missing)
  await expectRefusedAtOnce(zookeeper({ servers, rawPath: true }), missing, '/job')
  const locks = createLocks(zookeeper({ servers }))
  onTestFinished(() => locks.close())
  await expect(locks.inspect(lockName())).rejects.toThrow(missing)
  await expect(locks.list()).rejects.toThrow(missing)
})

test('access to the nodes of another user is refused at once', async () => {
  const auth = { scheme: 'digest', credentials: 'alice:right' }
  const name = lockName()
  const basePath = '/of-alice-alone'
  const lease = await bed.open({ auth, basePath }).lock(name).acquire()
  const wrong = { scheme: 'digest', credentials: 'alice:wrong' }
  await expectRefusedAtOnce(
    zookeeper({ servers: bed.servers, auth: wrong, basePath }),
    /NO_AUTH.*set auth/,
    name,
  )
  await lease.release()
})

test('an ACL that the server does not accept is refused at once', async () => {
  await expectRefusedAtOnce(zookeeper({ servers: bed.servers, acl: 'creator' }), /INVALID_ACL.*needs auth/)
})

test('while the server is down every call takes storeTimeoutMs; once it is back, calls succeed', async () => {
  await expectOneBound(zookeeper({ servers: bed.servers }), [bed.server])
})

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isServedByUsers, leadsThroughServed } from './served-mounts.ts';

const mounts = [
  '22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/root rw',
  '23 22 0:21 / /proc rw shared:2 - proc proc rw',
  '97 22 0:51 / /media/ada/far rw,nosuid shared:3 - fuse.sshfs ada@far: rw,user_id=1000,allow_other',
  String.raw`98 22 0:52 / /media/ada/a\040b rw - fuse.served served rw`,
  '99 22 0:53 / /net rw - autofs systemd-1 rw',
  '100 22 0:54 / /srv/nfs rw - nfs4 fuse:/srv rw',
  '',
].join('\n');

test('a path leads through what users serve where a mount of theirs is on its way', () => {
  for (const path of [
    '/media/ada/far',
    '/media/ada/far/bin/web',
    '/media/ada/a b/web',
    '/net/h/web',
  ]) {
    assert.ok(leadsThroughServed(path, mounts), path);
  }
  for (const path of [
    '/',
    '/usr/bin/web',
    '/media/ada/farther',
    '/media/ada/web',
    '/srv/nfs/web',
  ]) {
    assert.ok(!leadsThroughServed(path, mounts), path);
  }
});

test('a root that is served so does not count: everything is below it', () => {
  const all = '22 1 0:50 / / rw - fuse.fuse-overlayfs fuse-overlayfs rw\n';
  assert.ok(!leadsThroughServed('/usr/bin/web', all));
});

test('the mounts of this machine can be read', () => {
  assert.equal(isServedByUsers('/'), false);
});

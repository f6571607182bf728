// Suppressions through the npm client `resend`. Started by ../run, which sets RESEND_BASE_URL and
// RESEND_API_KEY.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Resend } from 'resend';
import { ok, refused, TIME, UUID } from './answers.js';

const resend = new Resend(process.env.RESEND_API_KEY);
const address = () => `ada+${randomUUID()}@example.com`;

test('an address is added, read, listed and removed, by id and by address', async () => {
  const email = address();
  const added = ok(await resend.suppressions.add({ email }));
  assert.equal(added.object, 'suppression');
  assert.match(added.id, UUID);
  assert.equal(ok(await resend.suppressions.add({ email: email.toUpperCase() })).id, added.id);
  for (const name of [added.id, email]) {
    const found = ok(await resend.suppressions.get(name));
    assert.deepEqual([found.object, found.id, found.email], ['suppression', added.id, email]);
    assert.deepEqual([found.origin, found.source_id], ['manual', null]);
    assert.match(found.created_at, TIME);
  }
  const [newest] = ok(await resend.suppressions.list({ origin: 'manual', limit: 1 })).data;
  assert.deepEqual([newest.id, newest.email, newest.object], [added.id, email, undefined]);
  assert.ok(ok(await resend.suppressions.list()).data.some(({ id }) => id === added.id));
  const gone = { object: 'suppression', id: added.id, deleted: true };
  assert.deepEqual(ok(await resend.suppressions.remove(email)), gone);
  refused(await resend.suppressions.get(email), 404, 'not_found');
  refused(await resend.suppressions.remove(added.id), 404, 'not_found');
});

test('many are added and removed at once', async () => {
  const emails = [address(), address(), address()];
  const { data } = ok(await resend.suppressions.batch.add({ emails }));
  assert.deepEqual(data.map(({ object }) => object), Array(3).fill('suppression'));
  const first = ok(await resend.suppressions.batch.remove({ emails: [emails[0]] })).data;
  assert.deepEqual(first, [{ object: 'suppression', id: data[0].id, deleted: true }]);
  const ids = data.slice(1).map(({ id }) => id);
  const rest = ok(await resend.suppressions.batch.remove({ ids })).data;
  assert.deepEqual(rest.map(({ id }) => id).sort(), ids.sort());
  refused(await resend.suppressions.batch.add({ emails: ['x'] }), 422, 'validation_error');
  refused(await resend.suppressions.batch.remove({}), 422, 'missing_required_field');
});

test('who is suppressed gets no mail', async () => {
  const email = address();
  ok(await resend.suppressions.add({ email }));
  const { id } = ok(
    await resend.emails.send({ from: 'Acme <hello@acme.example>', to: email, subject: 'Hello', text: 'x' }),
  );
  let last;
  for (let tries = 0; tries < 100 && last !== 'suppressed'; tries += 1) {
    await new Promise((done) => setTimeout(done, 100));
    last = ok(await resend.emails.get(id)).last_event;
  }
  assert.equal(last, 'suppressed');
});

// Files of contacts through the npm client `resend`. Started by ../run, which sets RESEND_BASE_URL
// and RESEND_API_KEY.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Resend } from 'resend';
import { ok, TIME, UUID } from './answers.js';

const resend = new Resend(process.env.RESEND_API_KEY);
const address = () => `ada+${randomUUID()}@example.com`;
const csv = (...rows) => new Blob([rows.join('\r\n')], { type: 'text/csv' });

async function completed(options) {
  const created = ok(await resend.contacts.imports.create(options));
  assert.equal(created.object, 'contact_import');
  assert.match(created.id, UUID);
  for (let look = 0; look < 100; look++) {
    const found = ok(await resend.contacts.imports.get(created.id));
    assert.ok(['queued', 'in_progress', 'completed'].includes(found.status), found.status);
    if (found.status === 'completed') return found;
    await sleep(100);
  }
  assert.fail('the import did not end');
}

test('a file is imported, with a map, a segment and a topic', async () => {
  const segment = ok(await resend.segments.create({ name: 'Imported' })).id;
  const topic = ok(await resend.topics.create({ name: 'News', defaultSubscription: 'opt_out' })).id;
  const [one, two] = [address(), address()];
  const found = await completed({
    file: csv('Mail,Name,Seats', `${one},"Ada, of course",3`, 'nobody,x,1', `${two},,`),
    columnMap: { email: 'Mail', firstName: 'Name', properties: { importedSeats: { column: 'Seats', type: 'number' } } },
    segments: [{ id: segment }],
    topics: [{ id: topic, subscription: 'opt_in' }],
  });
  assert.equal(found.object, 'contact_import');
  assert.match(found.created_at, TIME);
  assert.match(found.completed_at, TIME);
  assert.deepEqual(found.counts, { total: 3, created: 2, updated: 0, skipped: 0, failed: 1 });
  assert.equal(found.errors[0].line, 3);
  const contact = ok(await resend.contacts.get(one));
  assert.equal(contact.first_name, 'Ada, of course');
  assert.deepEqual(contact.properties.importedSeats, { type: 'number', value: 3 });
  assert.equal(ok(await resend.contacts.list({ segmentId: segment })).data.length, 2);
  const topics = ok(await resend.contacts.topics.list({ email: two, limit: 100 }));
  assert.equal(topics.data.find((item) => item.id === topic).subscription, 'opt_in');
  const [newest] = ok(await resend.contacts.imports.list({ status: 'completed', limit: 1 })).data;
  assert.equal(newest.id, found.id);
  assert.deepEqual(newest.counts, found.counts);
});

test('a contact that is there is skipped, or takes over what the file says', async () => {
  const email = address();
  ok(await resend.contacts.create({ email, firstName: 'Before' }));
  const file = csv('email,first_name', `${email},After`);
  assert.equal((await completed({ file })).counts.skipped, 1);
  assert.equal(ok(await resend.contacts.get(email)).first_name, 'Before');
  assert.equal((await completed({ file, onConflict: 'upsert' })).counts.updated, 1);
  assert.equal(ok(await resend.contacts.get(email)).first_name, 'After');
});

test('a file without addresses is refused at once', async () => {
  const { error } = await resend.contacts.imports.create({ file: csv('name', 'Ada') });
  assert.equal(error.statusCode, 422);
  assert.ok(error.message.includes('email'), error.message);
});

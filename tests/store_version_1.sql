BEGIN TRANSACTION;
CREATE TABLE conversations (
        id INTEGER PRIMARY KEY,
        address TEXT NOT NULL UNIQUE,
        epoch INTEGER NOT NULL DEFAULT 0,
        turns INTEGER NOT NULL DEFAULT 0,
        replies INTEGER NOT NULL DEFAULT 0,
        context_from INTEGER NOT NULL DEFAULT 0,
        busy TEXT
    );
INSERT INTO "conversations" VALUES(1,'test:bot:talk',0,2,1,0,'steer');
CREATE TABLE entries (
        seq INTEGER PRIMARY KEY,
        conversation INTEGER NOT NULL REFERENCES conversations (id),
        id TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'waiting'
            CHECK (state IN ('waiting', 'used', 'handled', 'refused', 'cancelled')),
        turn INTEGER,
        body TEXT NOT NULL,
        UNIQUE (conversation, id)
    );
INSERT INTO "entries" VALUES(1,1,'used','used',1,'{"id":"used","address":{"platform":"test","account":"bot","channel":"talk","thread":null},"author":{"id":"1","name":"Ada","bot":false},"text":"hello","when":"queue","seq":0,"at_reply":null,"command":false,"group":false,"partial":false,"attachments":[],"quote":null,"arrived":12.5}');
INSERT INTO "entries" VALUES(2,1,'taken','waiting',2,'{"id":"taken","address":{"platform":"test","account":"bot","channel":"talk","thread":null},"author":{"id":"1","name":"Ada","bot":false},"text":"hello","when":"queue","seq":0,"at_reply":null,"command":false,"group":false,"partial":false,"attachments":[],"quote":null,"arrived":12.5}');
INSERT INTO "entries" VALUES(3,1,'waits','waiting',NULL,'{"id":"waits","address":{"platform":"test","account":"bot","channel":"talk","thread":null},"author":{"id":"1","name":"Ada","bot":false},"text":"hello","when":"queue","seq":0,"at_reply":null,"command":false,"group":false,"partial":false,"attachments":[],"quote":null,"arrived":12.5}');
CREATE TABLE outbox (
        seq INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        conversation INTEGER NOT NULL REFERENCES conversations (id),
        state TEXT NOT NULL DEFAULT 'waiting'
            CHECK (state IN ('waiting', 'sending', 'sent', 'undeliverable')),
        body TEXT NOT NULL,
        platform_ids TEXT,
        reason TEXT
    );
INSERT INTO "outbox" VALUES(1,'r1',1,'waiting','{"key":"r1","address":{"platform":"test","account":"bot","channel":"talk","thread":null},"text":"an answer","seq":0,"turn":"","number":1,"answers":null,"repeat":false}',NULL,NULL);
INSERT INTO "outbox" VALUES(2,'k',1,'sending','{"key":"k","address":{"platform":"test","account":"bot","channel":"talk","thread":null},"text":"a notice","seq":0,"turn":"","number":null,"answers":null,"repeat":false}',NULL,NULL);
CREATE TABLE running_items (
        position INTEGER PRIMARY KEY,
        conversation INTEGER NOT NULL REFERENCES conversations (id),
        body TEXT NOT NULL
    );
INSERT INTO "running_items" VALUES(1,1,'{"type":"said","kind":"message","text":"how many?","author":"","entry":"","attachments":[]}');
CREATE TABLE turns (
        conversation INTEGER NOT NULL REFERENCES conversations (id),
        epoch INTEGER NOT NULL,
        number INTEGER NOT NULL,
        end TEXT CHECK (end IN ('completed', 'interrupted', 'failed')),
        reply INTEGER,
        planned TEXT,
        final TEXT,
        items TEXT NOT NULL DEFAULT '[]',
        PRIMARY KEY (conversation, epoch, number)
    );
INSERT INTO "turns" VALUES(1,0,1,'completed',1,NULL,'an answer','[{"type":"said","kind":"message","text":"how many?","author":"","entry":"","attachments":[]},{"type":"step","text":"an answer","calls":[],"results":[],"opaque":null}]');
INSERT INTO "turns" VALUES(1,0,2,NULL,NULL,'{"type":"step","text":"let me see","calls":[],"results":[],"opaque":null}',NULL,'[]');
CREATE INDEX entries_waiting ON entries (conversation, turn, seq) WHERE state = 'waiting';
CREATE UNIQUE INDEX turns_running ON turns (conversation) WHERE end IS NULL;
CREATE UNIQUE INDEX turns_replies ON turns (conversation, reply) WHERE reply IS NOT NULL;
CREATE INDEX running_items_of ON running_items (conversation, position);
CREATE INDEX outbox_unsent ON outbox (conversation, seq) WHERE state IN ('waiting', 'sending');
COMMIT;
PRAGMA user_version = 1;
